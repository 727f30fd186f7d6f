"""What is made from a GGUF, kept on disk so that the next start is quick.

In: a GGUF file and a folder for caches. Out: a `Pack`. Invariant: a pack is under its key only when it is whole,
because it is built aside, under a lock, and renamed; one whose files don't have their recorded digests is
built again. Replicas that start together build once.
"""

import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from accord.run.engines.gguf_graph import GRAPH, VERSION, Dimensions, build
from accord.run.engines.gguf_text import TOKENIZER, TextCard, write_tokenizer
from accord.run.engines.gguf_weights import WEIGHTS
from accord.terms.errors import BrokenEdge

_CARD = "card.json"
_LOCK_S_MAX = 120.0
_LOCK_RETRY_S = 0.1


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
        found = _load(target)
        if found is not None:
            return found
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{key}.lock"):
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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock file; BrokenEdge if another process holds it for too long."""
    ends_s = time.monotonic() + _LOCK_S_MAX
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends_s:
                    raise BrokenEdge(f"{path}: another process has held it for {_LOCK_S_MAX} s; stop it") from None
                time.sleep(_LOCK_RETRY_S)
        yield


def _rebuild(source: Path, target: Path) -> Pack:
    """Builds and renames, with the lock held: whatever lies aside was left by a process that was killed."""
    for left in target.parent.glob(f".{target.name}.aside-*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.aside-", dir=target.parent))
    try:
        card = _build(source, aside)
        if target.exists():
            target.rename(aside / "unsound")
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(target / "unsound", ignore_errors=True)
    return Pack(folder=target, dimensions=card.dimensions, text=card.text)


def _build(source: Path, folder: Path) -> _Card:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(str(source))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise BrokenEdge(f"{source}: not a readable GGUF: {error}; fetch the weights again") from error
    dimensions = build(reader, folder)
    text = write_tokenizer(reader, folder)
    digests = {name: _digest(folder / name) for name in (GRAPH, WEIGHTS, TOKENIZER)}
    card = _Card(dimensions=dimensions, text=text, digests=digests)
    (folder / _CARD).write_bytes(msgspec.json.encode(card))
    return card


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
