"""Device kinds of a fleet file: the `devices` section, and kinds of the catalog.

In: trees. Out: `DeviceKind`. Invariant: each figure keeps its tag and source; what a person writes without a tag
counts as assumed, and what nobody wrote stays None.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from accord.edges import device_catalog
from accord.edges.fields import Fields, UnitParser, at, leaf_bool, leaf_int, leaf_text, leaf_unit, shown, unknown
from accord.edges.yaml_tree import Items, Leaf, Table, Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.fleet import Codec, DeviceKind, Figure, Rate, Tag, Template, Vendor
from accord.terms.tensors import Math

E = TypeVar("E", bound=StrEnum)
KINDS_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_COUNT_MAX = 1024
UNSOURCED = "this fleet file"  # of a figure that a person wrote without saying where it is from


class Kinds:
    """Kinds by name: those that a file declares, and those of the catalog, which are read when they are asked for."""

    def __init__(self) -> None:
        self.found: dict[str, DeviceKind] = {}

    def declare(self, tree: Tree, field: str) -> None:
        """Reads the `devices` section; a kind may be like an earlier one."""
        fields = Fields(tree, field=field)
        for name, below in fields.rest():
            if len(self.found) >= KINDS_MAX:
                fix = "declare fewer kinds"
                raise BadInput(field=field, value=name, problem=f"more than {KINDS_MAX} kinds", fix=fix)
            self.found[check_kind_name(name, field=fields.name(name), line=at(below))] = self._declared(
                name, below, field=fields.name(name)
            )

    def find(self, name: str, *, field: str, line: str) -> DeviceKind:
        """The kind of this name; BadInput with the nearest name if there is none."""
        if name not in self.found:
            self.found[name] = self._look(name, field=field, line=line)
        return self.found[name]

    def _look(self, name: str, *, field: str, line: str) -> DeviceKind:
        if name in self.found:
            return self.found[name]
        if name not in device_catalog.names():
            near = device_catalog.near(name, also=self.found)
            fix = f"did you mean {near}?" if near else "declare it in `devices`; `accord fleet kinds` lists the catalog"
            raise BadInput(field=field, value=name, problem=f"no such device kind{line}", fix=fix)
        return catalog_kind(name)

    def _declared(self, name: str, tree: Tree, *, field: str) -> DeviceKind:
        fields = Fields(tree, field=field)
        like = fields.take("like")
        if like is None:
            base = DeviceKind(name=name, vendor=fields.must("vendor", enum_of(Vendor)))
        else:
            wanted = leaf_text(like, fields.name("like"))
            base = self._look(wanted, field=fields.name("like"), line=at(like))
            base = dataclasses.replace(base, name=name, vendor=fields.read("vendor", enum_of(Vendor), base.vendor))
        return _kind(fields, base, by=Figure(value=0, tag=Tag.ASSUMED, source=UNSOURCED))


def catalog_kind(name: str) -> DeviceKind:
    """A kind of the catalog; its file names a source for all its figures, and others for single ones."""
    fields = Fields(device_catalog.read(name), field="")
    source = fields.must("source", leaf_text)
    by = Figure(value=0, tag=fields.must("tag", enum_of(Tag)), source=source)
    return _kind(fields, DeviceKind(name=name, vendor=fields.must("vendor", enum_of(Vendor))), by=by)


def all_of(kind: DeviceKind) -> tuple[float, int, tuple[Codec, ...]]:
    """Share, memory and codecs of a whole device."""
    return 1.0, round(kind.memory_bytes.value) if kind.memory_bytes else 0, kind.codecs


def check_kind_name(name: str, *, field: str, line: str = "") -> str:
    """The name, if it is one; BadInput otherwise."""
    if not _NAME.fullmatch(name):
        fix = "use up to 63 letters, digits, dots, dashes and underscores"
        raise BadInput(field=field, value=name, problem=f"not a name{line}", fix=fix)
    return name


def _kind(fields: Fields, base: DeviceKind, *, by: Figure) -> DeviceKind:
    """`base` with what is written; `by` has the tag and the source of figures that name none."""

    def figure(key: str, parse: UnitParser[float], default: Figure | None) -> Figure | None:
        return fields.read(key, lambda tree, field: _figure(tree, field, parse=parse, by=by), default)

    kind = dataclasses.replace(
        base,
        memory_bytes=figure("memory", units.parse_size_bytes, base.memory_bytes),
        bandwidth_bytes_per_s=figure("bandwidth", units.parse_bandwidth_bytes_per_s, base.bandwidth_bytes_per_s),
        rates=fields.read("rates", lambda tree, field: _rates(tree, field, base=base, by=by), base.rates),
        link_bytes_per_s=figure("link", units.parse_bandwidth_bytes_per_s, base.link_bytes_per_s),
        link_latency_s=figure("link_latency", units.parse_duration_s, base.link_latency_s),
        price_usd_per_hour=figure("price_per_hour", units.parse_usd, base.price_usd_per_hour),
        codecs=fields.read("codecs", codecs_of, base.codecs),
        templates=fields.read("templates", _templates, base.templates),
        soft_share=fields.read("soft_share", leaf_bool, base.soft_share),
        pairs=fields.read("pairs", leaf_bool, base.pairs),
        quirks=fields.read("quirks", _texts, base.quirks),
    )
    fields.end()
    return kind


def _figure(tree: Tree, field: str, *, parse: UnitParser[float], by: Figure) -> Figure | None:
    """A bare figure, `{value, tag, source}`, or `unknown`, which takes back what `like` brought."""
    if isinstance(tree, Leaf) and tree.value == "unknown":
        return None
    if not isinstance(tree, Table):
        return dataclasses.replace(by, value=leaf_unit(parse, tree, field))
    fields = Fields(tree, field=field)
    figure = Figure(
        value=fields.must("value", lambda below, name: leaf_unit(parse, below, name)),
        tag=fields.read("tag", enum_of(Tag), by.tag),
        source=fields.read("source", leaf_text, by.source),
    )
    fields.end()
    return figure


def _rates(tree: Tree, field: str, *, base: DeviceKind, by: Figure) -> tuple[Rate, ...]:
    fields = Fields(tree, field=field)
    rates = {rate.math: rate for rate in base.rates}
    for math in Math:
        below = fields.take(math.value)
        if below is not None:
            figure = _figure(below, fields.name(math.value), parse=units.parse_flops_per_s, by=by)
            rates.pop(math, None)
            if figure is not None:
                rates[math] = Rate(math=math, flops_per_s=figure)
    fields.end()
    return tuple(rates[math] for math in Math if math in rates)


def codecs_of(tree: Tree, field: str) -> tuple[Codec, ...]:
    """`{nvdec: 7, jpeg: 7}`, sorted by name."""
    fields = Fields(tree, field=field)
    codecs = []
    for name, below in fields.rest():
        check_kind_name(name, field=fields.name(name), line=at(below))
        codecs.append(Codec(name=name, units=_count(below, fields.name(name))))
    return tuple(sorted(codecs, key=lambda codec: codec.name))


def _templates(tree: Tree, field: str) -> tuple[Template, ...]:
    fields = Fields(tree, field=field)
    templates = []
    for name, below in fields.rest():
        # `+me` marks MIG profiles with all media engines.
        check_kind_name(name.replace("+", "."), field=fields.name(name), line=at(below))
        inner = Fields(below, field=fields.name(name))
        templates.append(
            Template(
                name=name,
                memory_bytes=inner.must("memory", lambda tree, field: leaf_unit(units.parse_size_bytes, tree, field)),
                share=inner.must("share", share),
                count_max=inner.must("most", _count),
                codecs=inner.read("codecs", codecs_of, ()),
            )
        )
        inner.end()
    return tuple(templates)


def share(tree: Tree, field: str) -> float:
    """0.5, 50% or 1/7 -> a share from 0 to 1."""
    text = tree.value if isinstance(tree, Leaf) else None
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,4} ?/ ?[1-9][0-9]{0,3}", text, re.ASCII):
        value = float(Fraction(text.replace(" ", "")))
        if value <= 1:
            return value
    return leaf_unit(units.parse_share, tree, field)


def enum_of(choices: type[E]) -> Callable[[Tree, str], E]:
    """A parser of one of these words."""
    known: Mapping[str, E] = {choice.value: choice for choice in choices}

    def parse(tree: Tree, field: str) -> E:
        text = leaf_text(tree, field)
        if text not in known:
            fix = unknown(field, text, known, tree=tree).fix
            raise BadInput(field=field, value=text, problem=f"not one of these words{at(tree)}", fix=fix)
        return known[text]

    return parse


def _count(tree: Tree, field: str) -> int:
    count = leaf_int(tree, field)
    if count > _COUNT_MAX:
        raise BadInput(field=field, value=count, problem=f"too many{at(tree)}", fix=f"write {_COUNT_MAX} at most")
    return count


def _texts(tree: Tree, field: str) -> tuple[str, ...]:
    if not isinstance(tree, Items):
        raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix="write a list of texts")
    return tuple(leaf_text(item, f"{field}[{number}]") for number, item in enumerate(tree.items))
