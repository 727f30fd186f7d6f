"""An intent document -> `Intent`.

In: a YAML file, text or mapping, and `--set` overrides. Out: `Intent`, with all figures in base units.
Invariant: every field of the document is understood or refused; nothing is guessed. docs/intent.md
lists the fields.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from accord.edges.fields import Fields, at, leaf_bool, leaf_int, leaf_text, leaf_unit, leaf_version, shown
from accord.edges.intent_agents import agents_of
from accord.edges.intent_objectives import NONE as NO_OBJECTIVES
from accord.edges.intent_objectives import check_objectives, objectives_of
from accord.edges.intent_workload import workload_of
from accord.edges.yaml_tree import Items, Limits, Tree, from_plain, put, read_file, read_text, without_lines
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.intent import Allow, Budget, Intent, Serving, Workload
from accord.terms.tensors import Dtype, Quantization

E = TypeVar("E", bound=StrEnum)
_LIMITS = Limits()
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NO_OVERRIDES: tuple[str, ...] = ()


def load_intent(
    path: Path, *, overrides: Iterable[str] = _NO_OVERRIDES, environ: Mapping[str, str] | None = None
) -> Intent:
    """The intent of a YAML file. `overrides` are texts such as "objectives.ttft_p99=215ms".

    Raises BadInput with field, value, line and fix. `environ` (default: this process's) is where
    `serving.api_key: $NAME` is looked up.
    """
    return parse_intent(read_file(path, what="intent", limits=_LIMITS), overrides=overrides, environ=environ)


def intent_from_text(
    text: str, *, overrides: Iterable[str] = _NO_OVERRIDES, environ: Mapping[str, str] | None = None
) -> Intent:
    """The same for the text of a document."""
    return parse_intent(read_text(text, what="intent", limits=_LIMITS), overrides=overrides, environ=environ)


def intent_from_mapping(value: Mapping[str, object], *, environ: Mapping[str, str] | None = None) -> Intent:
    """The same for a document that is already a mapping, such as JSON."""
    return parse_intent(from_plain(value, what="intent", limits=_LIMITS), environ=environ)


def parse_intent(
    tree: Tree, *, overrides: Iterable[str] = _NO_OVERRIDES, environ: Mapping[str, str] | None = None
) -> Intent:
    """The same for a tree."""
    for override in overrides:
        tree = _overridden(tree, override)
    fields = Fields(tree, field="")
    fields.must("accord", leaf_version)
    attainment, objectives = fields.read("objectives", objectives_of, NO_OBJECTIVES)
    intent = Intent(
        name=fields.must("name", _name),
        model=fields.must("model", leaf_text),
        workload=fields.read("workload", workload_of, Workload()),
        objectives=objectives,
        attainment=attainment,
        budget=fields.read("budget", _budget, Budget()),
        fleet=fields.read("fleet", leaf_text, "local"),
        serving=fields.read("serving", _serving_of(os.environ if environ is None else environ), Serving()),
        allow=fields.read("allow", _allow, Allow()),
        agents=fields.read("agents", agents_of, None),
    )
    fields.end()
    check_objectives(intent.objectives, intent.workload)
    return intent


def _overridden(tree: Tree, override: str) -> Tree:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".", 1)
    # Percentiles have dots of their own (ttft_p99.9), and no table lies deeper than these two levels
    # save those of the workload and of agents.
    if keys[0] in ("workload", "agents") and len(keys) == 2:
        keys = [keys[0], *keys[1].split(".")]
    if not equals or not all(keys) or not text.strip():
        fix = "write FIELD=VALUE, such as --set objectives.ttft_p99=215ms"
        raise BadInput(field="--set", value=override, problem="not understood", fix=fix)
    value = read_text(text, what=f"--set {path}", limits=_LIMITS)
    return put(tree, keys, without_lines(value))


def _name(tree: Tree, field: str) -> str:
    text = leaf_text(tree, field)
    if not _NAME.fullmatch(text):
        fix = "use up to 63 small letters, digits, dots, dashes and underscores"
        raise BadInput(field=field, value=text, problem=f"not a name{at(tree)}", fix=fix)
    return text


def _budget(tree: Tree, field: str) -> Budget:
    fields = Fields(tree, field=field)
    budget = Budget(
        cost_usd_per_request_max=fields.read("per_request", _usd, None),
        cost_usd_per_hour_max=fields.read("per_hour", _usd, None),
    )
    fields.end()
    return budget


def _allow(tree: Tree, field: str) -> Allow:
    fields = Fields(tree, field=field)
    allow = Allow(
        quantizations=fields.read("quantization", _some_of(Quantization), ()),
        cache_dtypes=fields.read("cache", _some_of(Dtype), ()),
    )
    fields.end()
    return allow


def _some_of(kind: type[E]) -> Callable[[Tree, str], tuple[E, ...]]:
    """One member of an enumeration, or a list of some."""

    def parse(tree: Tree, field: str) -> tuple[E, ...]:
        items = tree.items if isinstance(tree, Items) else (tree,)
        known = {str(member): member for member in kind}
        for item in items:
            name = leaf_text(item, field)
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
                raise BadInput(field=field, value=name, problem=f"no such format{at(item)}", fix=fix)
        return tuple(dict.fromkeys(known[leaf_text(item, field)] for item in items))

    return parse


def _usd(tree: Tree, field: str) -> float | None:
    amount_usd = leaf_unit(units.parse_usd, tree, field)
    if amount_usd == 0:
        fix = "raise it, or leave it out if money is no bound"
        raise BadInput(field=field, value=shown(tree), problem=f"nothing is free{at(tree)}", fix=fix)
    return amount_usd


def _serving_of(environ: Mapping[str, str]) -> Callable[[Tree, str], Serving]:
    def parse(tree: Tree, field: str) -> Serving:
        fields = Fields(tree, field=field)
        key_tree = fields.take("api_key")
        serving = Serving(
            host=fields.read("host", leaf_text, Serving().host),
            port=fields.read("port", _port, Serving().port),
            api_key=None if key_tree is None else _api_key(key_tree, fields.name("api_key"), environ=environ),
            deterministic=fields.read("deterministic", leaf_bool, False),
        )
        fields.end()
        return serving

    return parse


def _port(tree: Tree, field: str) -> int:
    port = leaf_int(tree, field)
    if not 0 <= port <= 65535:
        fix = "write a port from 1 to 65535, or 0 for any free one"
        raise BadInput(field=field, value=port, problem=f"not a port{at(tree)}", fix=fix)
    return port


def _api_key(tree: Tree, field: str, *, environ: Mapping[str, str]) -> str:
    """The key is never in the document, which people share: only the variable's name is."""
    fix = "put the key into an environment variable and write its name, such as $ACCORD_API_KEY"
    text = leaf_text(tree, field)
    if not re.fullmatch(r"\$[A-Za-z_][A-Za-z0-9_]*", text):
        raise BadInput(field=field, value="(hidden)", problem=f"a key in the open{at(tree)}", fix=fix)
    key = environ.get(text[1:], "")
    if not key:
        raise BadInput(
            field=field, value=text, problem="this variable is empty or not set", fix=f"export {text[1:]}=..."
        )
    return key
