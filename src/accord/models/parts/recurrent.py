"""Mixers with a state of one size: delta rules, lightning attention, Mamba 1 and 2, short convolutions.

In: widths, heads, the layers. Out: `Parts` with a scan and the groups of its states. Invariant: a state is divided
as its heads are. States are kept as transformers' cache keeps them: the convolution's last `kernel` inputs (vLLM
and SGLang keep one less), the recurrent state in float32 unless a card says otherwise.
"""

from accord.models.parts.parts import NOTHING, Layers, Parts, linear, norm, vector
from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Dtype, Part, Split, Tensor
from accord.terms.work import MatMul, Scan, ScanKind

DELTA_CHUNK = 64  # units in a chunk of the delta rules, in transformers and in flash-linear-attention's kernels


def gated_delta(
    layers: Layers,
    *,
    hidden: int,
    key_heads: int,
    heads: int,
    key_dim: int,
    value_dim: int,
    kernel: int,
    state_dtype: Dtype = Dtype.F32,
    name: str = "delta",
) -> Parts:
    """Gated delta net (arXiv 2412.06464); each key head serves `heads / key_heads` value heads."""
    if not layers:
        return NOTHING
    mixed, values = 2 * key_heads * key_dim + heads * value_dim, heads * value_dim
    scan = Scan(
        name=name,
        layers=layers,
        kind=ScanKind.GATED_DELTA,
        heads=heads,
        key_heads=key_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        chunk=DELTA_CHUNK,
    )
    return (
        linear(f"{name}.qkv", hidden, mixed, layers, split=Split.ROWS, pieces=key_heads)
        + linear(f"{name}.z", hidden, values, layers, split=Split.ROWS, pieces=key_heads)
        + linear(f"{name}.b", hidden, heads, layers, split=Split.ROWS, pieces=key_heads, quantizable=False)
        + linear(f"{name}.a", hidden, heads, layers, split=Split.ROWS, pieces=key_heads, quantizable=False)
        + short_convolution(f"{name}.conv", mixed, layers, kernel=kernel, pieces=key_heads)
        + vector(f"{name}.dt_bias", heads, layers, split=Split.ROWS, pieces=key_heads)
        + vector(f"{name}.a_log", heads, layers, split=Split.ROWS, pieces=key_heads, dtype=Dtype.F32)
        + _scanned(scan, pieces=key_heads, dtype=state_dtype)
        + norm(f"{name}.norm", value_dim, layers)
        + linear(f"{name}.o", values, hidden, layers, split=Split.COLUMNS, pieces=key_heads)
    )


def kimi_delta(
    layers: Layers,
    *,
    hidden: int,
    heads: int,
    head_dim: int,
    kernel: int,
    full_gate: bool = False,
    name: str = "delta",
) -> Parts:
    """Kimi Delta Attention (arXiv 2510.26692): a decay for each channel, through a bottleneck of one head's size.

    `full_gate`: the output's gate has no bottleneck (Kimi-K3).
    """
    if not layers:
        return NOTHING
    width = heads * head_dim
    scan = Scan(
        name=name,
        layers=layers,
        kind=ScanKind.KIMI_DELTA,
        heads=heads,
        key_heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        chunk=DELTA_CHUNK,
    )
    gate = linear(f"{name}.g", hidden, width, layers, split=Split.ROWS, pieces=heads)
    if not full_gate:
        gate = linear(f"{name}.g_a", hidden, head_dim, layers)
        gate += linear(f"{name}.g_b", head_dim, width, layers, split=Split.ROWS, pieces=heads)
    return (
        linear(f"{name}.q", hidden, width, layers, split=Split.ROWS, pieces=heads)
        + linear(f"{name}.k", hidden, width, layers, split=Split.ROWS, pieces=heads)
        + linear(f"{name}.v", hidden, width, layers, split=Split.ROWS, pieces=heads)
        + short_convolution(f"{name}.conv", 3 * width, layers, kernel=kernel, pieces=heads)
        + linear(f"{name}.f_a", hidden, head_dim, layers)
        + linear(f"{name}.f_b", head_dim, width, layers, split=Split.ROWS, pieces=heads)
        + vector(f"{name}.dt_bias", width, layers, split=Split.ROWS, pieces=heads, dtype=Dtype.F32)
        + vector(f"{name}.a_log", heads, layers, split=Split.ROWS, pieces=heads, dtype=Dtype.F32)
        + linear(f"{name}.b", hidden, heads, layers, split=Split.ROWS, pieces=heads, quantizable=False)
        + _scanned(scan, pieces=heads, dtype=Dtype.F32)
        + gate
        + norm(f"{name}.norm", head_dim, layers)
        + linear(f"{name}.o", width, hidden, layers, split=Split.COLUMNS, pieces=heads)
    )


def lightning(layers: Layers, *, hidden: int, heads: int, head_dim: int, chunk: int, name: str = "lightning") -> Parts:
    """Lightning attention (arXiv 2401.04658): a fixed decay a head. Its state has the model's dtype."""
    if not layers:
        return NOTHING
    width = heads * head_dim
    scan = Scan(
        name=name,
        layers=layers,
        kind=ScanKind.LIGHTNING,
        heads=heads,
        key_heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        chunk=chunk,
    )
    return (
        linear(f"{name}.qkv", hidden, 3 * width, layers, split=Split.ROWS, pieces=heads)
        + _scanned(scan, pieces=heads, dtype=Dtype.BF16)
        + vector(f"{name}.norm", width, layers, part=Part.NORM, split=Split.ROWS, pieces=heads)
        + linear(f"{name}.gate", hidden, width, layers, split=Split.ROWS, pieces=heads)
        + linear(f"{name}.o", width, hidden, layers, split=Split.COLUMNS, pieces=heads)
    )


def mamba(
    layers: Layers,
    *,
    hidden: int,
    width: int,
    state: int,
    rank: int,
    kernel: int,
    bias: bool,
    conv_bias: bool,
    norms: bool,
    name: str = "mamba",
) -> Parts:
    """Mamba (arXiv 2312.00752): `width` channels with `state` values each. `norms`: of step, B and C (Jamba)."""
    if not layers:
        return NOTHING
    scan = Scan(
        name=name,
        layers=layers,
        kind=ScanKind.MAMBA,
        heads=width,
        key_heads=1,
        key_dim=state,
        value_dim=1,
        chunk=1,
    )
    made = (
        linear(f"{name}.in", hidden, 2 * width, layers, split=Split.ROWS, pieces=width, bias=bias)
        + short_convolution(f"{name}.conv", width, layers, kernel=kernel, pieces=width, bias=conv_bias)
        + linear(f"{name}.x", width, rank + 2 * state, layers, split=Split.COLUMNS, pieces=width)
        + linear(f"{name}.dt", rank, width, layers, split=Split.ROWS, pieces=width, bias=True)
        + vector(f"{name}.a_log", width * state, layers, split=Split.ROWS, pieces=width, dtype=Dtype.F32)
        + vector(f"{name}.d", width, layers, split=Split.ROWS, pieces=width)
        + _scanned(scan, pieces=width, dtype=Dtype.F32)
        + linear(f"{name}.out", width, hidden, layers, split=Split.COLUMNS, pieces=width, bias=bias)
    )
    for side, size in (("dt", rank), ("b", state), ("c", state)) if norms else ():
        made += norm(f"{name}.{side}_norm", size, layers)
    return made


def mamba2(
    layers: Layers,
    *,
    hidden: int,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    chunk: int,
    bias: bool,
    conv_bias: bool,
    out_bias: bool | None = None,
    state_dtype: Dtype = Dtype.F32,
    gated_norm: bool = True,
    name: str = "mamba",
) -> Parts:
    """Mamba-2 (arXiv 2405.21060): heads share B and C in `groups`, which ranks hold twice where they are too few."""
    if not layers:
        return NOTHING
    width, shared = heads * head_dim, 2 * groups * state
    scan = Scan(
        name=name,
        layers=layers,
        kind=ScanKind.MAMBA2,
        heads=heads,
        key_heads=groups,
        key_dim=state,
        value_dim=head_dim,
        chunk=chunk,
    )
    made = (
        linear(f"{name}.in", hidden, 2 * width + heads, layers, split=Split.ROWS, pieces=heads, bias=bias)
        + linear(f"{name}.bc", hidden, shared, layers, split=Split.KV_ROWS, pieces=groups, bias=bias)
        + short_convolution(f"{name}.conv", width, layers, kernel=kernel, pieces=heads, bias=conv_bias)
        + short_convolution(
            f"{name}.conv_bc", shared, layers, kernel=kernel, pieces=groups, bias=conv_bias, split=Split.KV_ROWS
        )
        + vector(f"{name}.dt_bias", heads, layers, split=Split.ROWS, pieces=heads)
        + vector(f"{name}.a_log", heads, layers, split=Split.ROWS, pieces=heads, dtype=Dtype.F32)
        + vector(f"{name}.d", heads, layers, split=Split.ROWS, pieces=heads)
        + _scanned(scan, pieces=heads, dtype=state_dtype)
    )
    if gated_norm:
        made += vector(f"{name}.norm", width, layers, part=Part.NORM, split=Split.ROWS, pieces=heads)
    after = bias if out_bias is None else out_bias
    return made + linear(f"{name}.out", width, hidden, layers, split=Split.COLUMNS, pieces=heads, bias=after)


def gated_convolution(layers: Layers, *, hidden: int, kernel: int, bias: bool = False, name: str = "conv") -> Parts:
    """A short convolution between two gates (LFM2); its last inputs are all that it remembers."""
    if not layers:
        return NOTHING
    return (
        linear(f"{name}.in", hidden, 3 * hidden, layers, split=Split.ROWS, pieces=hidden, bias=bias)
        + short_convolution(f"{name}.conv", hidden, layers, kernel=kernel, pieces=hidden, bias=bias)
        + linear(f"{name}.out", hidden, hidden, layers, split=Split.COLUMNS, pieces=hidden, bias=bias)
    )


def short_convolution(
    name: str,
    channels: int,
    layers: Layers,
    *,
    kernel: int,
    pieces: int,
    bias: bool = False,
    split: Split = Split.ROWS,
) -> Parts:
    """A causal convolution of each channel by itself over the last `kernel` units, which the cache keeps."""
    if not layers:
        return NOTHING
    weight = Tensor(
        name=name, part=Part.LAYER, rows=channels, columns=kernel, layers=layers, split=split, pieces=pieces
    )
    kept = CacheGroup(
        name=name,
        kind=CacheKind.STATE,
        layers=layers,
        state_values=channels * kernel,
        state_dtype=Dtype.BF16,
        pieces=pieces,
    )
    made = Parts(tensors=(weight,), operators=(MatMul(weight=weight, convolution=True),), cache=(kept,))
    return made + vector(f"{name}.bias", channels, layers, split=split, pieces=pieces) if bias else made


def _scanned(scan: Scan, *, pieces: int, dtype: Dtype) -> Parts:
    kept = CacheGroup(
        name=f"{scan.name}.state",
        kind=CacheKind.STATE,
        layers=scan.layers,
        state_values=scan.heads * scan.key_dim * scan.value_dim,
        state_dtype=dtype,
        pieces=pieces,
    )
    return Parts(operators=(scan,), cache=(kept,))
