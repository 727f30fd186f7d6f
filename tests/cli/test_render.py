"""`accord render`: a plan in, manifests on stdout, what is lost on stderr."""

import json
from pathlib import Path

import pytest
import yaml

from accord.render.targets import TARGETS

ROOT = Path(__file__).parents[2]
CHAT = str(ROOT / "examples" / "plans" / "chat-8b-one-card.yaml")
TWO = str(ROOT / "examples" / "plans" / "qwen3-32b-two-vendors.yaml")
MIXED = str(ROOT / "examples" / "fleets" / "mixed.yaml")


def test_manifests_can_be_piped(accord):
    status, out, err = accord("render", CHAT, "--to", "kubernetes")
    assert status == 0
    assert {document["kind"] for document in yaml.safe_load_all(out)} >= {"Deployment", "ResourceClaimTemplate"}
    assert err.startswith("  kubernetes can't express 1 of the plan's wishes:\n    chat-8b: all parts start, or none: ")


def test_strict_refuses_and_writes_nothing(accord, tmp_path):
    folder = tmp_path / "out"
    status, out, err = accord("render", CHAT, "--to", "kubernetes", "--strict", "--out", str(folder))
    assert (status, out) == (1, "")
    assert err.startswith("  Refused: kubernetes can't express 1 ")
    assert not folder.exists()


def test_files(accord, tmp_path):
    status, out, err = accord("render", TWO, "--to", "kubernetes", "--fleet", MIXED, "--out", str(tmp_path / "out"))
    assert (status, out) == (0, "")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kubernetes.yaml"]
    assert err.endswith(f"wrote {tmp_path / 'out' / 'kubernetes.yaml'}\n")


def test_json(accord):
    status, out, err = accord("render", CHAT, "--to", "kubernetes", "--json")
    answer = json.loads(out)
    assert (status, err) == (0, "")
    assert [file["name"] for file in answer["files"]] == ["kubernetes.yaml"]
    assert len(answer["lost"]) == 1
    status, out, _ = accord("render", CHAT, "--to", "kubernetes", "--json", "--strict")
    assert (status, len(json.loads(out)["refusal"]["causes"])) == (1, 1)


def test_namespace_and_image(accord):
    _, out, _ = accord("render", CHAT, "--to", "kubernetes", "--namespace", "llm", "--image", "vllm=mine:1")
    found = list(yaml.safe_load_all(out))
    assert {document["metadata"]["namespace"] for document in found} == {"llm"}
    (deployment,) = [document for document in found if document["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:1"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pin",), "--pin: 'given': the plan has no seats"),
        (("--namespace", "A B"), "--namespace: 'A B': not a namespace"),
        (("--image", "vllm"), "--image: 'vllm': not understood"),
        (("--fleet", "none.yaml"), "fleet: 'none.yaml': no such file"),
    ],
)
def test_bad_options(accord, arguments, says):
    status, out, err = accord("render", CHAT, "--to", "kubernetes", *arguments)
    assert (status, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (ROOT / "examples" / "voice-assistant.yaml", "this is an intent; plan it first"),
        (ROOT / "examples" / "fleets" / "mixed.yaml", "this is a fleet; give the fleet with --fleet"),
    ],
)
def test_other_documents(accord, path, says):
    status, _, err = accord("render", str(path), "--to", "kubernetes")
    assert status == 2
    assert says in err


def test_pinned_nodes_cannot_grow(accord):
    path = str(ROOT / "examples" / "plans" / "deepseek-v3-split.yaml")
    status, _, err = accord("render", path, "--to", "kubernetes", "--autoscale", "4")
    assert status == 2
    assert "--autoscale: 4: nodes that are pinned can't grow; add --no-pin" in err


def test_the_targets_are_listed(accord):
    status, out, _ = accord("render", "--help")
    assert status == 0
    assert all(name in out for name in TARGETS)
