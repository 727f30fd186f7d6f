"""Quirks <-> YAML, with the region as a line that people read: `dtype is bf16 and M > 16 and K % 32 != 0`.

In: quirks, or a file of them. Out: text, or the quirks. Invariant: load(dump(quirks)) == quirks, region for region as
its text says it; a file that a person edited is checked like any other input, and by `quirks.schema.json` alike.
"""

import datetime as dt
import importlib.resources
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import yaml

from accord.edges.fields import Fields, at, leaf_int, leaf_number, leaf_text, leaf_version, shown
from accord.edges.fleet_kinds import enum_of
from accord.edges.fleet_nodes import plain_text
from accord.edges.whole_text import save_text
from accord.edges.yaml_tree import Items, Leaf, Limits, Scalar, Tree, read_file, read_text
from accord.terms.errors import BadInput
from accord.terms.quirk import Evidence, Fact, FaultKind, Point, Quirk, Region, Trait, Version, Way, Workaround
from accord.terms.quirk_text import parse_region, region_text

Plain = Scalar | list["Plain"] | dict[str, "Plain"]
T = TypeVar("T")
_LIMITS = Limits(text_bytes_max=4 << 20, nodes_max=200_000)


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) of a quirk file."""
    return importlib.resources.files("accord.edges").joinpath("quirks.schema.json").read_text()


def dump_quirks(quirks: Sequence[Quirk]) -> str:
    """The quirks as YAML."""
    document: Plain = {"accord": 1, "quirks": plain_quirks(quirks)}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def plain_quirks(quirks: Sequence[Quirk]) -> Plain:
    """The quirks as a list of mappings, as they are in the file."""
    return [_plain(quirk) for quirk in quirks]


def save_quirks(quirks: Sequence[Quirk], path: Path) -> None:
    """Writes the quirks whole or not at all."""
    save_text(path, dump_quirks(quirks), what="quirks")


def load_quirks(path: Path) -> tuple[Quirk, ...]:
    """The quirks of a file. BadInput with field, value, line and fix."""
    return _quirks(read_file(path, what="quirks", limits=_LIMITS))


def quirks_from_text(text: str) -> tuple[Quirk, ...]:
    """The same for the text of a document."""
    return _quirks(read_text(text, what="quirks", limits=_LIMITS))


def _text_node(dumper: yaml.representer.BaseRepresenter, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that a reproducer can be read and copied."""

    yaml_representers = {**yaml.SafeDumper.yaml_representers, str: _text_node}  # noqa: RUF012


def _plain(quirk: Quirk) -> Plain:
    smallest = quirk.smallest
    told: dict[str, Plain] = {
        "name": quirk.name,
        "device": quirk.device,
        "operator": quirk.operator,
        "fault": quirk.fault.value,
        "region": region_text(quirk.region),
        "found": quirk.found,
        "versions": [_plain_version(version) for version in quirk.versions],
        "smallest": None if smallest is None else _plain_point(smallest),
        "evidence": _plain_evidence(quirk.evidence),
        "workarounds": [_plain_workaround(way) for way in quirk.workarounds],
        "remarks": list(quirk.remarks),
        "reproducer": quirk.reproducer,
    }
    return {key: value for key, value in told.items() if value not in (None, [])}


def _plain_version(version: Version) -> Plain:
    told: dict[str, Plain] = {"library": version.library, "version": version.version}
    return told if version.fixed_in is None else {**told, "fixed_in": version.fixed_in}


def _plain_point(point: Point) -> Plain:
    return {fact.name: fact.value for fact in point.facts} | {trait.name: trait.word for trait in point.traits}


def _plain_evidence(evidence: Evidence) -> Plain:
    return {
        "points": evidence.points,
        "failing": evidence.failing,
        "fresh": evidence.fresh,
        "missed": evidence.missed,
        "over_cover": evidence.over_cover,
        "worst": evidence.worst,
        "probes": list(evidence.probes),
        "witnesses": list(evidence.witnesses),
    }


def _plain_workaround(way: Workaround) -> Plain:
    return {
        "way": way.way.value,
        "detail": way.detail,
        "region": region_text(way.region),
        "cost_ratio": way.cost_ratio,
        "verified": way.verified,
    }


def _quirks(tree: Tree) -> tuple[Quirk, ...]:
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
    quirks = fields.must("quirks", _list_of(_quirk))
    fields.end()
    names = [quirk.name for quirk in quirks]
    for number, name in enumerate(names):
        if name in names[:number]:
            field = f"quirks[{number}].name"
            raise BadInput(field=field, value=name, problem="this name comes twice", fix="give each quirk its own")
    return quirks


def _quirk(tree: Tree, field: str) -> Quirk:
    fields = Fields(tree, field=field)
    # These two names are close enough that the absence of one would take the other for a slip of the pen.
    evidence = fields.read("evidence", _evidence, None)
    device = fields.must("device", plain_text)
    operator = fields.must("operator", plain_text)
    quirk = Quirk(
        name=fields.must("name", plain_text),
        device=device,
        operator=operator,
        fault=fields.must("fault", enum_of(FaultKind)),
        region=fields.must("region", _region),
        found=fields.must("found", _date),
        versions=fields.read("versions", _list_of(_version), ()),
        smallest=fields.read("smallest", lambda below, path: _point(below, path, operator), None),
        evidence=fields.must("evidence", _evidence) if evidence is None else evidence,
        workarounds=fields.read("workarounds", _list_of(_workaround), ()),
        remarks=fields.read("remarks", _list_of(leaf_text), ()),
        reproducer=fields.must("reproducer", leaf_text),
    )
    fields.end()
    return quirk


def _version(tree: Tree, field: str) -> Version:
    fields = Fields(tree, field=field)
    version = Version(
        library=fields.must("library", plain_text),
        version=fields.must("version", plain_text),
        fixed_in=fields.read("fixed_in", plain_text, None),
    )
    fields.end()
    return version


def _point(tree: Tree, field: str, operator: str) -> Point:
    """Whole numbers are facts, words are traits."""
    fields = Fields(tree, field=field)
    facts, traits = [], []
    for name, below in fields.rest():
        if isinstance(below, Leaf) and isinstance(below.value, str):
            traits.append(Trait(name=name, word=plain_text(below, f"{field}.{name}")))
        else:
            facts.append(Fact(name=name, value=leaf_int(below, f"{field}.{name}")))
    return Point(operator=operator, facts=tuple(facts), traits=tuple(traits))


def _evidence(tree: Tree, field: str) -> Evidence:
    fields = Fields(tree, field=field)
    evidence = Evidence(
        points=fields.must("points", leaf_int),
        failing=fields.must("failing", leaf_int),
        fresh=fields.must("fresh", leaf_int),
        missed=fields.must("missed", leaf_int),
        over_cover=fields.must("over_cover", _share),
        worst=fields.must("worst", plain_text),
        probes=fields.must("probes", _list_of(plain_text)),
        witnesses=fields.must("witnesses", _list_of(plain_text)),
    )
    fields.end()
    return evidence


def _workaround(tree: Tree, field: str) -> Workaround:
    fields = Fields(tree, field=field)
    way = Workaround(
        way=fields.must("way", enum_of(Way)),
        detail=fields.must("detail", lambda below, name: plain_text(below, name, empty=True)),
        region=fields.must("region", _region),
        cost_ratio=fields.must("cost_ratio", leaf_number),
        verified=fields.must("verified", leaf_int),
    )
    fields.end()
    return way


def _region(tree: Tree, field: str) -> Region:
    return parse_region(leaf_text(tree, field), field=field)


def _date(tree: Tree, field: str) -> str:
    text = leaf_text(tree, field)
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError:
        raise BadInput(field=field, value=text, problem=f"not a date{at(tree)}", fix="write YYYY-MM-DD") from None


def _share(tree: Tree, field: str) -> float:
    share = leaf_number(tree, field)
    if share > 1:
        raise BadInput(field=field, value=share, problem=f"more than all{at(tree)}", fix="write 0 to 1")
    return share


def _list_of(parse: Callable[[Tree, str], T]) -> Callable[[Tree, str], tuple[T, ...]]:
    def items(tree: Tree, field: str) -> tuple[T, ...]:
        if not isinstance(tree, Items):
            fix = "write a list, each entry after a dash"
            raise BadInput(field=field, value=shown(tree), problem=f"not a list{at(tree)}", fix=fix)
        return tuple(parse(item, f"{field}[{number}]") for number, item in enumerate(tree.items))

    return items
