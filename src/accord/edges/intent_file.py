"""An intent document -> `Intent`.

In: a YAML file, text or mapping, and `--set` overrides. Out: `Intent`, with all figures in base units.
Invariant: every field of the document is understood or refused; nothing is guessed. docs/intent.md
lists the fields.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from accord.edges.fields import (
    Fields,
    at,
    leaf_bool,
    leaf_int,
    leaf_number,
    leaf_text,
    leaf_unit,
    leaf_version,
    shown,
    unknown,
)
from accord.edges.yaml_tree import Limits, Tree, from_plain, put, read_file, read_text, without_lines
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.intent import Budget, Intent, Metric, Objective, Serving, Spread, Workload

_LIMITS = Limits()
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_OBJECTIVE = re.compile(r"([a-z_]+)_(p[0-9.]+)")
_INPUTS = ("text", "audio", "image")
_OUTPUTS = ("text", "audio")
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
    no_objectives: tuple[float, tuple[Objective, ...]] = (0.99, ())
    attainment, objectives = fields.read("objectives", _objectives, no_objectives)
    intent = Intent(
        name=fields.must("name", _name),
        model=fields.must("model", leaf_text),
        workload=fields.read("workload", _workload, Workload()),
        objectives=objectives,
        attainment=attainment,
        budget=fields.read("budget", _budget, Budget()),
        fleet=fields.read("fleet", leaf_text, "local"),
        serving=fields.read("serving", _serving_of(os.environ if environ is None else environ), Serving()),
    )
    agents = fields.take("agents")
    if agents is not None:
        fix = "remove it; the stages of the model itself are planned and run without it"
        raise BadInput(field="agents", value=shown(agents), problem=f"not supported yet{at(agents)}", fix=fix)
    fields.end()
    return intent


def _overridden(tree: Tree, override: str) -> Tree:
    path, equals, text = override.partition("=")
    keys = path.strip().split(".", 1)
    # Percentiles have dots of their own (ttft_p99.9), and no table lies deeper than these two levels
    # save the shares and spreads of the workload.
    if keys[0] == "workload" and len(keys) == 2:
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


def _workload(tree: Tree, field: str) -> Workload:
    fields = Fields(tree, field=field)
    workload = Workload(
        rate_rps=fields.read("rate_rps", _rate, None),
        trace=fields.read("trace", leaf_text, None),
        input_tokens=fields.read("input_tokens", _spread, None),
        output_tokens=fields.read("output_tokens", _spread, None),
        inputs=fields.read("inputs", _shares_of(_INPUTS), ()),
        outputs=fields.read("outputs", _shares_of(_OUTPUTS), ()),
    )
    fields.end()
    if workload.rate_rps is not None and workload.trace is not None:
        fix = "keep one of workload.rate_rps and workload.trace"
        raise BadInput(field=field, value="rate_rps and trace", problem="two rates", fix=fix)
    return workload


def _rate(tree: Tree, field: str) -> float | None:
    rate = leaf_number(tree, field)
    if rate == 0:
        fix = "write a rate above 0, or leave it out if you don't know it"
        raise BadInput(field=field, value=rate, problem=f"no requests{at(tree)}", fix=fix)
    return rate


def _spread(tree: Tree, field: str) -> Spread | None:
    fields = Fields(tree, field=field)
    spread = Spread(p50=fields.must("p50", leaf_number), p99=fields.must("p99", leaf_number))
    fields.end()
    if spread.p50 < 1 or spread.p99 < spread.p50:
        fix = "write 1 <= p50 <= p99"
        raise BadInput(field=field, value=f"p50 {spread.p50:g}, p99 {spread.p99:g}", problem="not a spread", fix=fix)
    return spread


def _shares_of(kinds: tuple[str, ...]) -> Callable[[Tree, str], tuple[tuple[str, float], ...]]:
    def parse(tree: Tree, field: str) -> tuple[tuple[str, float], ...]:
        fields = Fields(tree, field=field)
        shares = tuple((kind, fields.read(kind, _share, None)) for kind in kinds)
        fields.end()
        return tuple((kind, share) for kind, share in shares if share is not None)

    return parse


def _share(tree: Tree, field: str) -> float | None:
    return leaf_unit(units.parse_share, tree, field)


def _objectives(tree: Tree, field: str) -> tuple[float, tuple[Objective, ...]]:
    fields = Fields(tree, field=field)
    attainment = fields.read("attainment", _share, None)
    objectives: dict[tuple[Metric, float], Objective] = {}
    for key, value in fields.rest():
        objective = _objective(key, value, field=fields.name(key))
        if (objective.metric, objective.percentile) in objectives:
            problem = f"the same objective is written twice{at(value)}"
            raise BadInput(field=fields.name(key), value=shown(value), problem=problem, fix="keep one of them")
        objectives[objective.metric, objective.percentile] = objective
    return 0.99 if attainment is None else attainment, tuple(objectives.values())


def _objective(key: str, tree: Tree, *, field: str) -> Objective:
    match = _OBJECTIVE.fullmatch(key)
    known = [f"{metric}_{match.group(2) if match else percent}" for metric in Metric for percent in ("p50", "p99")]
    if match is None or match.group(1) not in list(Metric):
        raise unknown(field, key, [*known, "attainment"], tree=tree)
    metric = Metric(match.group(1))
    percentile = units.parse_percentile(match.group(2), field=field)
    bound = leaf_number(tree, field) if metric is Metric.RTF else leaf_unit(units.parse_duration_s, tree, field)
    if bound == 0:
        raise BadInput(field=field, value=shown(tree), problem=f"nothing takes no time{at(tree)}", fix="raise it")
    return Objective(metric=metric, percentile=percentile, bound=bound)


def _budget(tree: Tree, field: str) -> Budget:
    fields = Fields(tree, field=field)
    budget = Budget(
        cost_usd_per_request_max=fields.read("per_request", _usd, None),
        cost_usd_per_hour_max=fields.read("per_hour", _usd, None),
    )
    fields.end()
    return budget


def _usd(tree: Tree, field: str) -> float | None:
    return leaf_unit(units.parse_usd, tree, field)


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
