"""What is made from a GGUF, kept on disk so that the next start is quick.

In: a GGUF file and a folder for caches. Out: a `Pack`. Invariant: a pack is under its key only when it is whole,
because it is built aside and renamed; one whose files don't have their recorded digests is built again.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

import msgspec

from accord.run.engines.gguf_graph import GRAPH, VERSION, Dimensions, build
from accord.run.engines.gguf_text import TOKENIZER, TextCard, write_tokenizer
from accord.run.engines.gguf_weights import WEIGHTS
from accord.terms.errors import BrokenEdge

_CARD = "card.json"


class _Card(msgspec.Struct, frozen=True, kw_only=True):
    dimensions: Dimensions
    text: TextCard
    digests: dict[str, str]


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with graph, weights and tokenizer, and what they hold."""

    folder: Path
    dimensions: Dimensions
    text: TextCard


def open_pack(source: Path, cache: Path) -> Pack:
    """The pack of `source`, built if `cache` has no sound one; BrokenEdge if that can't be done."""
    try:
        key = f"{_digest(source)[:24]}-{VERSION}"
        target = cache / key
        return _load(target) or _rebuild(source, target)
    except OSError as error:
        raise BrokenEdge(f"{source}: can't be turned into an ONNX graph in {cache}: {error}") from error


def _load(folder: Path) -> Pack | None:
    try:
        card = msgspec.json.decode((folder / _CARD).read_bytes(), type=_Card)
        sound = all(_digest(folder / name) == digest for name, digest in card.digests.items())
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return Pack(folder=folder, dimensions=card.dimensions, text=card.text) if sound else None


def _rebuild(source: Path, target: Path) -> Pack:
    from gguf import GGUFReader

    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        try:
            reader = GGUFReader(str(source))
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise BrokenEdge(f"{source}: not a readable GGUF: {error}; fetch the weights again") from error
        dimensions = build(reader, aside)
        text = write_tokenizer(reader, aside)
        digests = {name: _digest(aside / name) for name in (GRAPH, WEIGHTS, TOKENIZER)}
        card = _Card(dimensions=dimensions, text=text, digests=digests)
        (aside / _CARD).write_bytes(msgspec.json.encode(card))
        _swap(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Pack(folder=target, dimensions=dimensions, text=text)


def _swap(aside: Path, target: Path) -> None:
    """Renames `aside` to `target`. Whatever is there is unsound, unless another process was quicker."""
    if _load(target) is not None:
        return
    try:
        if target.exists():
            target.rename(aside / "unsound")
        aside.rename(target)
    except OSError:
        if _load(target) is None:
            raise
    shutil.rmtree(target / "unsound", ignore_errors=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
