"""FLOPs of recurrences: one unit at a time, or chunk by chunk with matrix multiplies.

In: a `Scan`, a `Load`, the phase. Out: FLOPs over all layers and the batch. Invariant: a multiply and an add are two
FLOPs; work on states and on pairs of units counts, work on single vectors (norms, gates, decays of keys) doesn't.
"""

from accord.terms.work import Load, Phase, Scan, ScanKind


def scan_flops(scan: Scan, load: Load, phase: Phase, *, rectangle: bool = False) -> float:
    """FLOPs of one step. `rectangle` asks for `charged_flops` instead of what is needed.

    A decode step runs the recurrent form, everything else the chunked form (Mamba has only the recurrent one).
    """
    if rectangle:
        return charged_flops(scan, load, phase)
    each = len(scan.layers) * load.batch
    if phase is Phase.DECODE or scan.kind is ScanKind.MAMBA:
        return each * load.new * recurrent_flops(scan)
    whole, rest = divmod(load.new, scan.chunk)
    return each * (whole * chunk_flops(scan, scan.chunk) + (chunk_flops(scan, rest) if rest else 0))


def recurrent_flops(scan: Scan) -> float:
    """FLOPs of one unit in one layer, for each of the heads x key x value values of the state.

    Gated delta rule (arXiv 2412.06464) and Kimi Delta Attention (2510.26692): 1 to decay, 2 to recall what the state
    holds for this key, 2 to write the difference, 2 to read. Mamba-2 (2405.21060) and lightning attention
    (2401.04658): 1 to decay, 2 to write, 2 to read. Mamba (2312.00752) has another decay for each value of the state:
    2 to make it (a product and its exponential), 1 for the input, 2 to update, 2 to read.
    """
    match scan.kind:
        case ScanKind.GATED_DELTA | ScanKind.KIMI_DELTA | ScanKind.MAMBA:
            return 7.0 * _state(scan)
        case ScanKind.MAMBA2 | ScanKind.LIGHTNING:
            return 5.0 * _state(scan)


def chunk_flops(scan: Scan, units: int) -> float:
    """FLOPs of one chunk of `units` units in one layer, pairs above the diagonal left out.

    All kinds: scores of the c * (c + 1) / 2 pairs, their weighted sum of values, and 2 * 2 FLOPs for each unit and
    value of the state, to read what came before the chunk and to add the chunk to it; the old state decays once.
    Mamba-2 shares its scores among the heads of a group (arXiv 2405.21060, section 6). The delta rules make each unit
    depend on those before it (2412.06464, section 3.3; 2510.26692, section 3): products of keys with keys below the
    diagonal, a triangular system solved for keys and for values (2 FLOPs for each pair and column), and 2 more for
    each unit and value of the state, to take out what the old state holds already.
    """
    upto, below = units * (units + 1) / 2, units * (units - 1) / 2
    score_heads = scan.key_heads if scan.kind is ScanKind.MAMBA2 else scan.heads
    scores = 2 * score_heads * scan.key_dim * upto
    values = 2 * scan.heads * scan.value_dim * upto
    carried = (4 * units + 1) * _state(scan)
    if scan.kind not in (ScanKind.GATED_DELTA, ScanKind.KIMI_DELTA):
        return scores + values + carried
    system = 2 * scan.heads * (2 * scan.key_dim + scan.value_dim) * below
    return scores + values + carried + system + 2 * units * _state(scan)


def charged_flops(scan: Scan, load: Load, phase: Phase) -> float:
    """What a counter of matrix multiplies charges the plain torch form with, as transformers has it.

    Such a counter (torch.utils.flop_counter) doesn't see elementwise updates and triangular systems, and sees whole
    squares and whole chunks, the padding of the last one included. Kept for comparisons only.
    """
    each = len(scan.layers) * load.batch
    if scan.kind is ScanKind.MAMBA:
        return each * load.new * 2 * _state(scan)  # the read of each unit
    if phase is Phase.DECODE:
        return each * load.new * _CHARGED_DECODE[scan.kind] * _state(scan)
    whole, rest = divmod(load.new, scan.chunk)
    if scan.kind is ScanKind.LIGHTNING:  # its last chunk isn't padded
        return each * (whole * _charged_chunk(scan, scan.chunk) + _charged_chunk(scan, rest))
    chunks = whole + bool(rest)
    charged = chunks * _charged_chunk(scan, scan.chunk)
    if scan.kind is ScanKind.MAMBA2:  # states pass between chunks by one dense product over all pairs of chunks
        charged += 2 * (chunks + 1) ** 2 * _state(scan)
    return each * charged


# For each value of the state: Mamba-2 reads by a matrix multiply, lightning attention writes by one, too.
_CHARGED_DECODE = {ScanKind.GATED_DELTA: 0, ScanKind.KIMI_DELTA: 0, ScanKind.MAMBA2: 2, ScanKind.LIGHTNING: 4}


def _charged_chunk(scan: Scan, units: int) -> float:
    keys, values = scan.key_dim, scan.value_dim
    match scan.kind:
        case ScanKind.GATED_DELTA:  # keys x keys, queries x keys; values
            width, passes = 2 * keys + values, 6
        case ScanKind.KIMI_DELTA:  # scores are elementwise; the inverse is applied to keys and to values; values
            width, passes = keys + 2 * values, 6
        case _:  # queries x keys for every head; values
            width, passes = keys + values, 4
    return 2 * scan.heads * width * units**2 + passes * units * _state(scan)


def _state(scan: Scan) -> int:
    return scan.heads * scan.key_dim * scan.value_dim
