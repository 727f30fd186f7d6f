"""What stages are asked, what replicas bear, and what requests see of it."""

import numpy as np
import pytest

from accord.edges.fleet_kinds import catalog_kind
from accord.edges.intent_file import intent_from_text
from accord.edges.model_catalog import entry
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.weights import stored_bytes
from accord.models.read import read_card
from accord.plan.fleet.curve import curve_of
from accord.plan.fleet.demand import Demand, Pace, demand_of
from accord.plan.fleet.menu import LEVELS
from accord.plan.fleet.replica import Build, ReplicaType, replica_type
from accord.terms.architecture import Architecture
from accord.terms.fleet_plan import Parallel, Role
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype

_INTENT = """
accord: 1
name: voice
model: any
workload:
  rate_rps: 12
  input_tokens: {p50: 900, p99: 6000}
  output_tokens: {p50: 180, p99: 900}
  inputs: {text: 1.0, audio: 0.6, image: 0.2}
  outputs: {text: 1.0, audio: 0.6}
objectives: {ttft_p99: 150ms}
"""


def _asked(model: str, text: str = _INTENT) -> tuple[Architecture, Demand]:
    architecture = read_card(entry(model).card, name=model)
    return architecture, demand_of(architecture, intent_from_text(text))


def _built(model: str, stage: str, *, kind: str = "h200", tensor: int = 1, role: Role = Role.WHOLE):
    architecture, demand = _asked(model)
    speeds = performance(catalog_kind(kind), Tuning(), engine="vllm")
    assert isinstance(speeds, Performance)
    stored = dict(zip([row.stage for row in architecture.needs], architecture.stored, strict=True))[stage]
    build = Build(role=role, parallel=Parallel(tensor=tensor), stored=stored, cache_dtype=Dtype.BF16)
    return replica_type(architecture.of(stage), demand.of(stage), speeds, build), demand.of(stage)


def test_a_voice_assistant_asks_its_stages_in_the_shares_of_its_inputs() -> None:
    _, demand = _asked("qwen3-omni-30b-a3b")
    assert {item.stage: round(item.share, 6) for item in demand.stages} == {
        "audio": 0.6, "vision": 0.2, "thinker": 1.0, "talker": 0.6, "code2wav": 0.6,
    }  # fmt: skip
    assert sum(kind.share for kind in demand.kinds) == pytest.approx(1.0)
    assert demand.writer == "thinker"
    # Ten seconds of sound are 1,000 mel frames and 130 tokens (Qwen3-Omni's own 13 a second).
    text = 900 * np.exp((np.log(6000 / 900) / 2.32634787) ** 2 / 2)
    assert demand.of("thinker").units.mean == pytest.approx(text + 0.6 * 130 + 0.2 * 256, rel=0.01)
    # Its codec has 12.5 frames a second.
    assert demand.of("talker").outputs.mean == pytest.approx(demand.audio_s.mean * 12.5)
    assert demand.of("code2wav").pace is Pace.CHUNKS


@pytest.mark.parametrize(
    ("model", "always", "steps"),
    [
        ("whisper-large-v3", {"encoder", "decoder"}, {}),
        ("openvla-7b", {"vision", "action"}, {}),
        ("pi0", {"vision", "prefix", "action"}, {"action": 10}),
        ("flux.1-dev", {"text_encoder", "text_encoder_2", "denoiser", "vae"}, {"denoiser": 28}),
        ("wan2.1-t2v-14b", {"text_encoder", "denoiser", "vae"}, {"denoiser": 100}),
        ("fuyu-8b", {"decoder"}, {}),
    ],
)
def test_stages_that_every_request_needs_are_always_there(model: str, always: set[str], steps: dict[str, int]) -> None:
    _, demand = _asked(model)
    assert {item.stage for item in demand.stages if item.share == pytest.approx(1.0)} == always
    assert {item.stage: item.steps for item in demand.stages if item.steps > 1} == steps


@pytest.mark.parametrize(
    ("model", "stage", "tensor", "role"),
    [
        ("qwen3-32b", "decoder", 2, Role.WHOLE),
        ("qwen3-32b", "decoder", 4, Role.PREFILL),
        ("qwen3-32b", "decoder", 4, Role.DECODE),
        ("deepseek-v3", "decoder", 8, Role.WHOLE),
        ("qwen3-omni-30b-a3b", "vision", 1, Role.WHOLE),
        ("qwen3-omni-30b-a3b", "code2wav", 1, Role.WHOLE),
        ("flux.1-dev", "denoiser", 1, Role.WHOLE),
    ],
)
def test_a_busier_replica_is_slower(model: str, stage: str, tensor: int, role: Role) -> None:
    replica, demand = _built(model, stage, tensor=tensor, role=role)
    assert isinstance(replica, ReplicaType)
    for servers in (1, 4):
        curve = curve_of(replica, demand, servers=servers)
        assert curve.capacity_rps > 0
        table = curve.table()
        assert table.shape == (len(LEVELS), 6)
        assert np.isfinite(table).all()
        assert (np.diff(table[:, 0::2], axis=0) >= -1e-12).all()
    shared = curve_of(replica, demand, servers=8).first.mean
    assert (shared <= curve_of(replica, demand, servers=1).first.mean + 1e-12).all()


def test_what_decodes_is_never_faster_than_its_memory() -> None:
    """Tokens a second at any load: each step reads all weights once, from 4.8 TB/s."""
    replica, demand = _built("qwen3-32b", "decoder", tensor=2, role=Role.DECODE)
    assert isinstance(replica, ReplicaType)
    architecture, _ = _asked("qwen3-32b")
    weights = stored_bytes(architecture.needs[0].tensors, architecture.stored[0]) * 0.97  # embeddings are looked up
    curve = curve_of(replica, demand)
    assert (curve.pace.mean >= weights / 2 / 4.8e12).all()
    batch = curve.capacity_rps * demand.outputs.mean * curve.pace.mean[-1]
    assert batch <= replica.batch_max * 1.001


def test_memory_adds_up_and_too_much_is_refused() -> None:
    replica, _ = _built("qwen3-32b", "decoder", tensor=2)
    assert isinstance(replica, ReplicaType)
    assert replica.memory.taken_bytes <= replica.memory.usable_bytes
    assert replica.memory.weights_bytes == pytest.approx(32.76e9 * 2 / 2, rel=0.01)  # its makers: 32.8B parameters
    refusal, _ = _built("deepseek-v3", "decoder", tensor=4)
    assert isinstance(refusal, Refusal)
    assert refusal.field == "devices.h200.memory"
    small, _ = _built("qwen3-32b", "decoder", kind="rtx-4090")
    assert isinstance(small, Refusal)
