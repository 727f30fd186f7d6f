"""What a steady crowd of requests sees: time to first token and time per output token.

In: `Crowd`, seconds of a replica's steps, a `Serving`. Out: `Seen`, means over requests. Invariant: arrays broadcast;
so many requests are always under way (a closed loop, as load generators keep it), and one that leaves is replaced.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accord.estimate.cache import request_bytes
from accord.estimate.form import Form
from accord.estimate.performance import Performance

Array = npt.NDArray[np.float64]
MEMORY_SHARE = 0.95  # of a device: what load tests give their engines
RESERVE_BYTES = 2 << 30
_ROUNDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How an engine serves a crowd; see estimate/tuning.yaml.

    `read_share`: the part of others' prompts that writers wait for. `wait_steps`: steps until a prompt is taken up.
    `burst`: the part of all prompts of the crowd that a prompt finds before itself, since requests began together.
    `first` and `first_s`: a factor on the time to the first token, and what is added to it. `seat_wait`: the part of
    a stay that is waited for each seat that lacks. `gained`: tokens a step besides one where drafts are checked, by a
    batch so small that this costs nothing; `draft_batch` sequences get half of it. `pool`, `pool_burst`,
    `pool_wait_steps`, `pool_first_s`: the same of pools that only read, and a factor on their time for each prompt.
    """

    read_share: float = 0.9
    wait_steps: float = 2.0
    burst: float = 0.15
    first: float = 1.0
    first_s: float = 0.03
    seat_wait: float = 1.0
    gained: float = 0.6
    draft_batch: float = 100.0
    pool: float = 1.0
    pool_burst: float = 0.15
    pool_wait_steps: float = 5.0
    pool_first_s: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """`requests` are under way at each replica that writes; `seats` fit into it. `drafts` is 1 where a draft is used;
    `lanes` are a replica's data-parallel groups.

    `pools` replicas write and `readers` others read, each `reader_lanes` prompts at once; where one replica does both,
    readers are 0.
    """

    requests: Array
    seats: Array
    outputs: Array
    drafts: Array
    lanes: Array
    pools: Array
    readers: Array
    reader_lanes: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Seconds of steps: of `batches` sequences that write (last axis), of the largest of them with a prompt, and of a
    prompt alone.
    """

    batches: Array
    write_s: Array
    mixed_s: Array
    alone_s: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Means over requests, in seconds."""

    ttft_s: Array
    tpot_s: Array


def seats(form: Form, performance: Performance, *, tokens: float, share: float = MEMORY_SHARE) -> float:
    """Sequences of so many tokens whose caches fit beside the weights; 1 at least."""
    free = performance.memory_bytes * share - form.weights_bytes - RESERVE_BYTES
    each = request_bytes(form.cache, tokens=round(tokens), dtype=form.cache_dtype)
    return max(1.0, free / max(1, each)) * form.data


def together(crowd: Crowd, work: Work, serving: Serving) -> Seen:
    """One replica reads and writes: each prompt holds up those who write, and waits for a step to end."""
    running = np.minimum(crowd.requests, crowd.seats)
    write = _between(work, running)
    read = np.maximum(work.mixed_s - work.write_s[..., 0], 1e-9)
    tpot = write / _tokens(crowd, running, serving) + running / crowd.outputs * read * serving.read_share
    first = work.alone_s + write * serving.wait_steps + 0.5 * read * running * serving.burst
    first = first * serving.first + serving.first_s
    return Seen(ttft_s=first + _seat_wait(crowd, running, crowd.outputs * tpot + first, serving), tpot_s=tpot)


def apart(crowd: Crowd, work: Work, serving: Serving) -> Seen:
    """Some replicas read and others write; the slower side sets the rate, and the other has fewer under way."""
    most = np.minimum(crowd.requests, crowd.seats)
    read_s = work.alone_s * serving.pool / np.maximum(1.0, crowd.readers * crowd.reader_lanes)
    running = most
    for _ in range(_ROUNDS):
        rate = crowd.pools * running / (crowd.outputs * _pace(crowd, work, running, serving) + work.alone_s)
        running = np.minimum(most, running * np.minimum(1.0, 1.0 / np.maximum(rate * read_s, 1e-12)) ** 0.8)
    tpot = _pace(crowd, work, running, serving)
    everyone = crowd.requests * crowd.pools
    queue = np.maximum(everyone * read_s - crowd.outputs * tpot - work.alone_s, 0.0)
    first = work.alone_s * serving.first + 0.5 * everyone * read_s * serving.pool_burst + queue
    first = first + tpot * serving.pool_wait_steps + serving.pool_first_s
    lacking = np.where(queue > 0, 0.0, _seat_wait(crowd, most, crowd.outputs * tpot, serving))
    return Seen(ttft_s=first + lacking, tpot_s=tpot)


def _pace(crowd: Crowd, work: Work, running: Array, serving: Serving) -> Array:
    return _between(work, running) / _tokens(crowd, running, serving)


def _tokens(crowd: Crowd, running: Array, serving: Serving) -> Array:
    """Tokens of a sequence in a step: longer drafts are checked while steps are bound by memory."""
    return 1.0 + serving.gained * crowd.drafts / (1.0 + running / crowd.lanes / serving.draft_batch)


def _seat_wait(crowd: Crowd, running: Array, stay_s: Array, serving: Serving) -> Array:
    return np.maximum(crowd.requests - running, 0.0) / running * stay_s * serving.seat_wait


def _between(work: Work, running: Array) -> Array:
    """Seconds at a batch between two of those that were computed, along a power law; batches fall."""
    at = np.log(np.maximum(running, 1e-9))
    sizes, seconds = np.log(work.batches), np.log(work.write_s)
    found = seconds[..., -1]
    for place in range(sizes.shape[-1] - 1, 0, -1):
        low, high = sizes[..., place], sizes[..., place - 1]
        part = np.clip((at - low) / (high - low), 0.0, 1.0)
        found = np.where(at >= low, seconds[..., place] + part * (seconds[..., place - 1] - seconds[..., place]), found)
    return np.exp(found)
