"""The `agents` of an intent document -> `Agents`.

In: its tree. Out: `Agents`, with all figures in base units. Invariant: every field is understood or refused; a
sandbox without bounds isn't accepted.
"""

import re

from accord.edges.fields import Fields, at, leaf_int, leaf_number, leaf_text, leaf_unit, shown
from accord.edges.intent_workload import picture_size
from accord.edges.yaml_tree import Leaf, Tree
from accord.terms import units
from accord.terms.errors import BadInput
from accord.terms.intent import Agents, Preprocess, Sandbox, Video, Wakes

_HERTZ = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(k?)Hz", re.ASCII)
_LANGUAGES = ("javascript",)


def agents_of(tree: Tree, field: str) -> Agents | None:
    """Sessions, and what each may use. BadInput with field, value, line and fix."""
    fields = Fields(tree, field=field)
    agents = Agents(
        concurrent=fields.must("concurrent", _one_or_more),
        sandbox=fields.read("sandbox", _sandbox, None),
        state_retention_s=fields.read("state", _state, None),
        preprocess=fields.read("preprocess", _preprocess, Preprocess()),
        wakes=fields.read("wakes", _wakes, None),
    )
    fields.end()
    return agents


def _sandbox(tree: Tree, field: str) -> Sandbox | None:
    fields = Fields(tree, field=field)
    sandbox = Sandbox(
        language=fields.must("language", _language),
        memory_bytes=fields.must("memory", lambda below, path: leaf_unit(units.parse_size_bytes, below, path)),
        cpus=fields.must("cpu", leaf_number),
        wall_s=fields.must("wall", _duration),
        network=fields.read("network", _network, False),
    )
    fields.end()
    return sandbox


def _language(tree: Tree, field: str) -> str:
    return _one_of(tree, field, _LANGUAGES)


def _network(tree: Tree, field: str) -> bool:
    return _one_of(tree, field, ("none", "open")) == "open"


def _one_of(tree: Tree, field: str, words: tuple[str, ...]) -> str:
    text = leaf_text(tree, field)
    if text not in words:
        fix = f"known here: {', '.join(words)}"
        raise BadInput(field=field, value=text, problem=f"not one of them{at(tree)}", fix=fix)
    return text


def _state(tree: Tree, field: str) -> float | None:
    fields = Fields(tree, field=field)
    retention_s = fields.must("retention", _duration)
    fields.end()
    return retention_s


def _preprocess(tree: Tree, field: str) -> Preprocess:
    fields = Fields(tree, field=field)
    preprocess = Preprocess(
        image=fields.read("image", picture_size, None),
        audio_hz=fields.read("audio", _hertz, None),
        video=fields.read("video", _video, None),
    )
    fields.end()
    return preprocess


def _hertz(tree: Tree, field: str) -> int | None:
    text = tree.value if isinstance(tree, Leaf) else None
    found = _HERTZ.fullmatch(text.strip()) if isinstance(text, str) else None
    hertz = float(found[1]) * (1000 if found[2] else 1) if found else 0.0
    if not 1000 <= hertz <= 1_000_000:
        fix = "write a sampling rate, such as 16kHz"
        raise BadInput(field=field, value=shown(tree), problem=f"not a sampling rate{at(tree)}", fix=fix)
    return round(hertz)


def _video(tree: Tree, field: str) -> Video | None:
    return Video(_one_of(tree, field, tuple(Video)))


def _wakes(tree: Tree, field: str) -> Wakes | None:
    fields = Fields(tree, field=field)
    wakes = Wakes(every_s=fields.must("every", _duration), tokens_max=fields.must("tokens_max", _one_or_more))
    fields.end()
    return wakes


def _duration(tree: Tree, field: str) -> float:
    seconds = leaf_unit(units.parse_duration_s, tree, field)
    if seconds == 0:
        raise BadInput(field=field, value=shown(tree), problem=f"no time{at(tree)}", fix="write 1s or more")
    return seconds


def _one_or_more(tree: Tree, field: str) -> int:
    count = leaf_int(tree, field)
    if count == 0:
        raise BadInput(field=field, value=count, problem=f"none{at(tree)}", fix="write 1 or more")
    return count
