"""`accord render` with odd input: what is said, the status, and that nothing goes to stdout but the text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from accord.render.targets import TARGETS
from tests.cli.test_render import CHAT, MIXED, ROOT, TWO

SPLIT = str(ROOT / "examples" / "plans" / "deepseek-v3-split.yaml")
OMNI = str(ROOT / "examples" / "plans" / "qwen3-omni-shared-cards.yaml")
DGX = str(ROOT / "examples" / "fleets" / "dgx.yaml")
K8S = ("--to", "kubernetes")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("none.yaml", *K8S), "plan: 'none.yaml': no such file"),
        ((str(ROOT / "examples" / "plans"), *K8S), "is a folder; name a YAML file"),
        ((CHAT, "--to", "kubernets"), "--to: 'kubernets': unknown target; did you mean kubernetes?"),
        ((CHAT, "--to", "nomad"), "--to: 'nomad': unknown target; known here: kubernetes, hami"),
        ((CHAT, "--to", "vllm-omni"), "--to: 'vllm-omni': no pool of the plan runs in vLLM-Omni"),
        ((CHAT, *K8S, "--image", "vlm=x"), "--image: 'vlm': no pool and no engine of the plan; known here: chat, vllm"),
        ((CHAT, *K8S, "--image", "vllm=a b"), "--image: 'vllm=a b': not understood"),
        ((CHAT, "--to", "vllm", "--autoscale", "2"), "--autoscale: 2: vllm starts a fixed number"),
        ((TWO, *K8S, "--fleet", DGX), "fleet_plan.pools.h20.kind: 'h20': no node of the fleet has such devices"),
        ((CHAT, *K8S, "--fleet", CHAT), "nodes: 'absent': required"),
    ],
)
def test_bad_input(accord, arguments, says):
    status, out, err = accord("render", *arguments)
    assert (status, out) == (2, "")
    assert says in err
    status, out, err = accord("render", *arguments, "--json")
    assert (status, err) == (2, "")
    assert json.loads(out)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("node: h20-03", "node: gone-03", "fleet_plan.seats[0].node: 'gone-03': the fleet has no such node"),
        ("5, 6, 7]", "5, 6, 9]", "fleet_plan.seats[0].devices: 9: no h20 there on node h20-03"),
        ("node: h20-03", "node: npu-01", "fleet_plan.seats[0].devices: 0: no h20 there on node npu-01"),
        ("nic: 0", "nic: 8", "fleet_plan.seats[0].nic: 8: node h20-03 has "),
    ],
)
def test_seats_that_the_fleet_no_longer_has(accord, tmp_path, old, new, says):
    path = tmp_path / "plan.yaml"
    path.write_text(Path(SPLIT).read_text().replace(old, new, 1))
    status, out, err = accord("render", str(path), *K8S, "--fleet", MIXED)
    assert (status, out) == (2, "")
    assert says in err
    assert err.endswith("place the plan anew, or add --no-pin\n")
    assert accord("render", str(path), *K8S, "--fleet", MIXED, "--no-pin")[0] == 0


@pytest.mark.parametrize("folder", ["/dev/null/x", "/proc/x"])
def test_an_unwritable_folder_is_a_broken_edge(accord, folder):
    status, out, err = accord("render", CHAT, *K8S, "--out", folder)
    assert (status, out) == (3, "")
    assert "choose a folder that is writable with --out" in err


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("path", [CHAT, TWO, SPLIT, OMNI])
def test_strict_refuses_with_status_1_or_loses_nothing(accord, path, target):
    status, text, err = accord("render", path, "--to", target, "--fleet", MIXED)
    if status == 2:
        assert "no pool of the plan" in err
        return
    status, out, told = accord("render", path, "--to", target, "--fleet", MIXED, "--strict")
    lossy = "can't express" in err
    assert (status, out) == ((1, "") if lossy else (0, text))
    assert told == (err.replace(f"  {target} can't", f"  Refused: {target} can't", 1) if lossy else err)


def test_pools_that_cannot_grow_are_lost(accord):
    status, out, err = accord("render", SPLIT, *K8S, "--fleet", MIXED, "--no-pin", "--autoscale", "4")
    assert status == 0
    assert "decode: up to 4 replicas: its router knows the replicas that it was started with" in err
    assert "HorizontalPodAutoscaler" not in {document["kind"] for document in yaml.safe_load_all(out)}


@pytest.mark.parametrize("target", TARGETS)
def test_the_text_is_the_same_in_every_process(target):
    """Neither the time nor Python's random order of sets is in it."""
    path = OMNI if target == "vllm-omni" else TWO
    words = [sys.executable, "-m", "accord", "render", path, "--to", target, "--fleet", MIXED]
    texts = {
        subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
