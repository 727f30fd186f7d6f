"""FLOPs of recurrences, from two sides.

What torch's counter charges transformers' own functions with, exactly; and what each form needs, counted while it is
computed: a plain recurrence and a chunked one written out from the papers, which must also give the same numbers.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.jamba import modeling_jamba
from transformers.models.kimi_linear import modeling_kimi_linear
from transformers.models.minimax import MiniMaxConfig, modeling_minimax
from transformers.models.nemotron_h import modeling_nemotron_h
from transformers.models.qwen3_next import modeling_qwen3_next

from accord.estimate.scan import charged_flops, chunk_flops, recurrent_flops, scan_flops
from accord.terms.work import Load, Phase, Scan, ScanKind

BATCH, HEADS, KEYS, VALUES = 2, 4, 8, 6


def scan_of(kind, *, key_heads=HEADS, chunk=64, heads=HEADS, keys=KEYS, values=VALUES):
    return Scan(
        name="scan",
        layers=(0,),
        kind=kind,
        heads=heads,
        key_heads=key_heads,
        key_dim=keys,
        value_dim=values,
        chunk=chunk,
    )


def counted(call):
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        call()
    return counter.get_total_flops()


def loads(new):
    return Load(new=new, batch=BATCH)


def rows(new, *sizes):
    return torch.randn(BATCH, new, *sizes)


@pytest.mark.parametrize("new", [1, 64, 150])
def test_the_gated_delta_rule_is_charged_as_torch_does(new):
    q, k, v = rows(new, 2, KEYS), rows(new, 2, KEYS), rows(new, HEADS, VALUES)
    rest = {"g": -rows(new, HEADS).abs(), "beta": rows(new, HEADS).sigmoid()}
    scan = scan_of(ScanKind.GATED_DELTA, key_heads=2)
    chunked = counted(lambda: modeling_qwen3_next.torch_chunk_gated_delta_rule(q, k, v, **rest))
    assert charged_flops(scan, loads(new), Phase.PREFILL) == chunked
    plain = counted(lambda: modeling_qwen3_next.torch_recurrent_gated_delta_rule(q, k, v, **rest))
    assert charged_flops(scan, loads(new), Phase.DECODE) == plain == 0


@pytest.mark.parametrize("new", [1, 64, 150])
def test_kimi_delta_attention_is_charged_as_torch_does(new):
    q, k, v = rows(new, HEADS, KEYS), rows(new, HEADS, KEYS), rows(new, HEADS, VALUES)
    g, beta = -rows(new, HEADS, KEYS).abs(), rows(new, HEADS).sigmoid()
    scan = scan_of(ScanKind.KIMI_DELTA)
    state = {"initial_state": None, "output_final_state": True}
    chunked = counted(lambda: modeling_kimi_linear.chunk_kimi_delta_attention(q, k, v, g, beta, **state))
    assert charged_flops(scan, loads(new), Phase.PREFILL) == chunked
    plain = counted(lambda: modeling_kimi_linear.recurrent_kimi_delta_attention(q, k, v, g, beta, **state))
    assert charged_flops(scan, loads(new), Phase.DECODE) == plain == 0


@pytest.mark.parametrize("new", [1, 16, 70])
def test_mamba2_is_charged_as_torch_does(new):
    x, dt, decay = rows(new, HEADS, VALUES), rows(new, HEADS), -torch.rand(HEADS)
    b, c = rows(new, 2, KEYS), rows(new, 2, KEYS)
    scan = scan_of(ScanKind.MAMBA2, key_heads=2, chunk=16)
    chunked = counted(lambda: modeling_nemotron_h.mamba2_chunk_scan(x, dt, decay, b, c, 16))
    assert charged_flops(scan, loads(new), Phase.PREFILL) == chunked
    state, wide = torch.zeros(BATCH, HEADS, VALUES, KEYS), dt[:, 0, :, None].expand(-1, -1, VALUES)
    decays = decay[:, None, None].expand(-1, VALUES, KEYS)
    step = counted(
        lambda: modeling_nemotron_h.mamba2_selective_state_update(state, x[:, 0], wide, decays, b[:, 0], c[:, 0])
    )
    assert charged_flops(scan, loads(1), Phase.DECODE) == step


@pytest.mark.parametrize("new", [1, 5])
def test_mamba_is_charged_as_torch_does(new):
    width, keys = 12, 4
    x, dt, decay = torch.randn(BATCH, width, new), torch.rand(BATCH, width, new), -torch.rand(width, keys)
    b, c = torch.randn(BATCH, keys, new), torch.randn(BATCH, keys, new)
    scan = scan_of(ScanKind.MAMBA, heads=width, key_heads=1, keys=keys, values=1, chunk=1)
    whole = counted(lambda: modeling_jamba.mamba_selective_scan(x, dt, decay, b, c))
    assert charged_flops(scan, loads(new), Phase.PREFILL) == whole
    state = torch.zeros(BATCH, width, keys)
    step = counted(
        lambda: modeling_jamba.mamba_selective_state_update(state, x[..., 0], dt[..., 0], decay, b[..., 0], c[..., 0])
    )
    assert charged_flops(scan, loads(1), Phase.DECODE) == step


@pytest.mark.parametrize("new", [1, 16, 70])
def test_lightning_attention_is_charged_as_torch_does(new):
    config = MiniMaxConfig(hidden_size=32, num_attention_heads=HEADS, head_dim=KEYS, num_hidden_layers=2, block_size=16)
    block = modeling_minimax.MiniMaxLightningAttention(config, 1)
    projections = 2 * BATCH * new * 32 * HEADS * KEYS * 5  # queries, keys, values, gate, output
    scan = scan_of(ScanKind.LIGHTNING, values=KEYS, chunk=16)
    cache = modeling_minimax.MiniMaxCache()
    whole = counted(lambda: block(rows(new, 32), None, None, cache=cache))
    assert charged_flops(scan, loads(new), Phase.PREFILL) == whole - projections
    step = counted(lambda: block(rows(1, 32), None, None, cache=cache))
    assert charged_flops(scan, loads(1), Phase.DECODE) == step - projections / new


@dataclass
class Tally:
    """Counts 2 FLOPs for a multiply and an add as it computes; work on single vectors goes by uncounted."""

    flops: int = 0
    outputs: list = field(default_factory=list)

    def dot(self, a, b):
        self.flops += 2 * a.size
        return a @ b

    def take(self, weight, vector):
        self.flops += 2 * vector.size
        return weight * vector

    def read(self, vector, state):
        self.flops += 2 * state.size
        return vector @ state

    def write(self, key, value):
        self.flops += 2 * key.size * value.size
        return np.outer(key, value)

    def decay(self, state, factor):
        self.flops += state.size
        return state * factor


def inputs(units, *, channels):
    """Queries, keys, values, rates and logarithms of decays (one a unit, or one a channel) of one head."""
    draw = np.random.default_rng(units)
    logs = -draw.random((units, KEYS if channels else 1))
    keys = draw.standard_normal((units, KEYS)) / KEYS
    return draw.standard_normal((units, KEYS)), keys, draw.standard_normal((units, VALUES)), draw.random(units), logs


def column(factor, state):
    return np.broadcast_to(factor[:, None], state.shape) if factor.size > 1 else factor


def one_by_one(tally, given, *, delta):
    """The recurrences themselves, as arXiv 2412.06464, 2510.26692, 2405.21060 and 2401.04658 have them."""
    q, k, v, rate, logs = given
    state = np.zeros((KEYS, VALUES))
    for t in range(len(q)):
        state = tally.decay(state, column(np.exp(logs[t]), state))
        new = rate[t] * (v[t] - tally.read(k[t], state)) if delta else v[t]
        state = state + tally.write(k[t], new)
        tally.outputs.append(tally.read(q[t], state))
    return state


def in_one_chunk(tally, state, given, *, delta):
    """One chunk: what the old state says, what the pairs in it say, and the state after it."""
    q, k, v, rate, logs = given
    total, news = np.cumsum(logs, axis=0), list[np.ndarray]()
    seen, ahead = q * np.exp(total), k * np.exp(-total)
    if delta:
        new_keys: list[np.ndarray] = []
        for t in range(len(q)):
            value, key = rate[t] * v[t], rate[t] * k[t] * np.exp(total[t])
            for s in range(t):
                weight = rate[t] * tally.dot(k[t] * np.exp(total[t]), ahead[s])
                value, key = value - tally.take(weight, news[s]), key - tally.take(weight, new_keys[s])
            news.append(value)
            new_keys.append(key)
        news = [value - tally.read(key, state) for value, key in zip(news, new_keys, strict=True)]
    else:
        news = list(v)
    for t in range(len(q)):
        pairs = sum(tally.take(tally.dot(seen[t], ahead[s]), news[s]) for s in range(t + 1))
        tally.outputs.append(tally.read(seen[t], state) + pairs)
    after = tally.decay(state, column(np.exp(total[-1]), state))
    return after + sum(tally.write(ahead[s] * np.exp(total[-1]), news[s]) for s in range(len(q)))


@pytest.mark.parametrize("units", [1, 5, 16])
@pytest.mark.parametrize("kind", [ScanKind.GATED_DELTA, ScanKind.KIMI_DELTA, ScanKind.MAMBA2, ScanKind.LIGHTNING])
def test_both_forms_need_what_they_are_counted_with_and_agree(kind, units):
    delta = kind in (ScanKind.GATED_DELTA, ScanKind.KIMI_DELTA)
    given = inputs(2 * units, channels=kind is ScanKind.KIMI_DELTA)
    scan = scan_of(kind, heads=1, key_heads=1)

    plain = Tally()
    last = one_by_one(plain, given, delta=delta)
    assert plain.flops == 2 * units * recurrent_flops(scan)

    chunked, state = Tally(), np.zeros((KEYS, VALUES))
    for part in (slice(0, units), slice(units, 2 * units)):
        state = in_one_chunk(chunked, state, tuple(values[part] for values in given), delta=delta)
    assert chunked.flops == 2 * chunk_flops(scan, units)
    np.testing.assert_allclose(np.array(chunked.outputs), np.array(plain.outputs), atol=1e-9)
    np.testing.assert_allclose(state, last, atol=1e-9)


def test_heads_of_a_group_share_mamba2_scores():
    alone, shared = scan_of(ScanKind.MAMBA2, key_heads=HEADS), scan_of(ScanKind.MAMBA2, key_heads=1)
    pairs = 16 * 17 / 2
    assert chunk_flops(alone, 16) - chunk_flops(shared, 16) == (HEADS - 1) * 2 * KEYS * pairs


def test_mamba_makes_a_decay_for_each_value_of_its_state():
    width, keys = 3, 4
    state, flops = np.zeros((width, keys)), 0
    for _ in range(2):
        steps, x, b, c = np.ones(width), np.ones(width), np.ones(keys), np.ones(keys)
        decay, flops = np.exp(steps[:, None] * np.ones((width, keys))), flops + 2 * state.size  # product, exponential
        come, flops = (steps * x)[:, None] * b, flops + state.size
        state, flops = decay * state + come, flops + 2 * state.size
        _, flops = state @ c, flops + 2 * state.size
    scan = scan_of(ScanKind.MAMBA, heads=width, key_heads=1, keys=keys, values=1, chunk=1)
    assert 2 * recurrent_flops(scan) == flops == scan_flops(scan, Load(new=2), Phase.PREFILL)


@pytest.mark.parametrize("kind", ScanKind)
def test_work_grows_with_units_and_only_full_chunks_and_a_rest_are_needed(kind):
    scan = scan_of(kind, chunk=16)
    costs = [scan_flops(scan, Load(new=new), Phase.PREFILL) for new in range(40)]
    assert costs == sorted(costs)
    assert costs[39] - costs[7] == pytest.approx(2 * costs[16])
