"""What `accord model` is given -> the parsed card of a model, and its name.

In: a path to a `config.json`, to a folder with one, to a diffusers folder, or a name of our catalog. Out: `FoundCard`.
Invariant: whatever the file holds, the answer comes in bounded time and memory: a card, or BadInput with the place.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.edges import model_catalog
from accord.models import catalog
from accord.models.card import Json
from accord.terms.errors import BadInput, BrokenEdge

TEXT_BYTES_MAX = 16 << 20  # the largest public card has 3 MB: it names every expert's number format
DEPTH_MAX = 32
KEY_MAX = 1000  # characters; names of modules are keys, too

# What else lies in a model's folder, told by a key that a card doesn't have.
_OTHER_FILES = {
    "quantization": "the quantization settings of a model",
    "weight_map": "an index of weight files",
    "peft_type": "the settings of an adapter",
    "added_tokens_decoder": "the settings of a tokenizer",
    "merges": "a tokenizer",
    "chat_template": "a chat template",
    "image_processor_type": "the settings of an image processor",
    "feature_extractor_type": "the settings of a feature extractor",
    "max_new_tokens": "the settings of sampling",
    "do_sample": "the settings of sampling",
}
_WHICH = ("model_type", "_class_name", "architectures", "hidden_size", "num_hidden_layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCard:
    """A card as it was found. `source` is a file, or where the catalog has its figures from."""

    name: str
    source: str
    values: Mapping[str, Json]


def find_card(given: str) -> FoundCard:
    """The card that a path or a catalog name stands for; BadInput with the nearest names otherwise."""
    path = _path(given)
    if path is not None:
        return _in_folder(path) if path.is_dir() else _in_file(path)
    name = given.rpartition("/")[2].lower()
    if name in model_catalog.names():
        entry = model_catalog.entry(name)
        return FoundCard(name=name, source=entry.source, values=entry.card)
    near = model_catalog.near(name, also=catalog.MODELS)
    fix = f"did you mean {near[0]}?" if near else "give a config.json, a folder with one, or a name of `--list`"
    problem = "no such file" if "/" in given or given.endswith(".json") else "no such file, and not in the catalog"
    raise BadInput(field="CARD", value=given, problem=problem, fix=fix)


def parse_card(text: str, *, where: str) -> Mapping[str, Json]:
    """The mapping of a JSON document; BadInput names the line, or the key that comes twice."""
    try:
        values: Json = json.loads(text, object_pairs_hook=_distinct, parse_constant=_constant)
    except json.JSONDecodeError as error:
        place = f"{where}, line {error.lineno} column {error.colno}"
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
        fix = "the file is cut off there; fetch it again" if cut else "mend it there"
        if not text.strip():
            raise BadInput(field="CARD", value=where, problem="empty", fix="give a model's config.json") from error
        there = text[error.pos : error.pos + 20]
        raise BadInput(field=place, value=there, problem=f"not JSON: {error.msg}", fix=fix) from error
    except RecursionError as error:
        raise _too_deep(where) from error
    except ValueError as error:  # a whole number of more digits than Python reads
        problem = "holds a whole number of thousands of digits"
        raise BadInput(field="CARD", value=where, problem=problem, fix="write smaller numbers") from error
    if not isinstance(values, Mapping):
        raise BadInput(field="CARD", value=where, problem="not a mapping", fix="give a model's config.json")
    _bound(values, where=where)
    if "\\ud" in text.lower():
        _no_lone_surrogates(values, where=where)
    return values


def _shown(text: str) -> str:
    """A name from the file system, without what would move a terminal's cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _path(given: str) -> Path | None:
    path = Path(given)
    try:
        return path if given and path.exists() else None
    except (OSError, ValueError):
        return None  # too long for a name, or with a null byte


def _in_folder(folder: Path) -> FoundCard:
    name = _shown(folder.resolve().name)
    index = folder / "model_index.json"
    if index.is_file():
        return FoundCard(name=name, source=_shown(str(index)), values=_pipeline(index))
    path = folder / "config.json"
    if not path.is_file():
        fix = "give a folder with config.json or model_index.json"
        raise BadInput(field="CARD", value=str(folder), problem="a folder without a model card", fix=fix)
    return _in_file(path)


def _in_file(path: Path) -> FoundCard:
    if path.name == "model_index.json":
        return _in_folder(path.parent)
    values = _read(path)
    _must_be_card(values, path)
    beside = path.with_name(path.name.removesuffix("config.json") + "hf_quant_config.json")
    if "quantization_config" not in values and path.name.endswith("config.json") and beside.is_file():
        values = {**values, "quantization_config": _read(beside)}
    return FoundCard(name=_shown(_name(path)), source=_shown(str(path)), values=values)


def _pipeline(index: Path) -> Mapping[str, Json]:
    """One mapping for a diffusers folder: the index, with each component's own card in its place."""
    values = dict(_read(index))
    for key, value in values.items():
        if not isinstance(value, Sequence) or isinstance(value, str):
            continue
        if "/" in key or key.startswith("."):
            raise BadInput(field=key, value=str(index), problem="not a folder's name", fix="rename this component")
        for name in ("config.json", "scheduler_config.json"):
            path = index.parent / key / name
            if path.is_file():
                values[key] = _read(path)
                break
    return values


def _name(path: Path) -> str:
    if path.name == "config.json":
        return path.resolve().parent.name or "model"
    return path.stem.removesuffix("config").rstrip("_.-") or path.stem


def _must_be_card(values: Mapping[str, Json], path: Path) -> None:
    if any(key in values for key in _WHICH):
        return
    for key, words in _OTHER_FILES.items():
        if key in values:
            fix = "give the model's config.json, which lies beside it"
            raise BadInput(field="CARD", value=str(path), problem=f"this is {words}, not a model card", fix=fix)


def _read(path: Path) -> Mapping[str, Json]:
    try:
        with path.open("rb") as file:
            data = file.read(TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise BrokenEdge(f"CARD: {path}: {error.strerror}; make it readable") from error
    if len(data) > TEXT_BYTES_MAX:
        fix = "give a model's config.json"
        raise BadInput(field="CARD", value=str(path), problem=f"larger than {TEXT_BYTES_MAX >> 20} MiB", fix=fix)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} isn't UTF-8"
        raise BadInput(field="CARD", value=str(path), problem=problem, fix="give a model's config.json") from error
    return parse_card(text, where=str(path))


def _distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadInput(field=key, value=values[key], problem="the key comes twice", fix="keep one of them")
            seen.add(key)
    for key in values:
        if len(key) > KEY_MAX or not key.isprintable():
            fix = f"write printable keys of at most {KEY_MAX} characters"
            raise BadInput(field="CARD", value=key, problem="not a key of any card", fix=fix)
    return values


def _constant(word: str) -> float:
    """Public cards have Infinity as a bound of something (Nemotron-H's time steps); whoever reads a size refuses it."""
    if word == "NaN":
        raise BadInput(field="CARD", value=word, problem="not a number that JSON has", fix="write a number or null")
    return float(word)


def _bound(values: Mapping[str, Json], *, where: str) -> None:
    level: list[Mapping[str, Json] | Sequence[Json]] = [values]
    for _ in range(DEPTH_MAX):
        level = [
            item
            for node in level
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise _too_deep(where)


def _too_deep(where: str) -> BadInput:
    return BadInput(field="CARD", value=where, problem="nested too deeply", fix=f"nest {DEPTH_MAX} levels at most")


def _no_lone_surrogates(values: Mapping[str, Json], *, where: str) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        problem = "holds half a character (a lone surrogate)"
        raise BadInput(field="CARD", value=where, problem=problem, fix="write whole characters") from error
