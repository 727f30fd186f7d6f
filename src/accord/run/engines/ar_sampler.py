"""Chooses one token from logits, by the client's temperature, top_p and seed.

In: logits, (vocabulary,) float32. Out: a token id.
Invariant: the choice depends on the request's own seed and logits only, never on its neighbours in the batch.
"""

import numpy as np

from accord.run.engines.ar_model import Logits
from accord.terms.request import Params

_HEAD = 256


class Sampler:
    """One request's sampler: greedy at temperature 0, else seeded nucleus sampling (arXiv 1904.09751)."""

    def __init__(self, params: Params) -> None:
        self._temperature = params.temperature
        self._top_p = params.top_p
        # A client may send any 64-bit integer; numpy wants it without a sign.
        self._rng = np.random.default_rng(None if params.seed is None else params.seed % (1 << 64))

    def choose(self, logits: Logits) -> int:
        """The next token."""
        if self._temperature <= 0.0:
            return int(np.argmax(logits))
        with np.errstate(over="ignore"):  # a temperature near 0 sends all but the best to minus infinity
            scaled = (logits.astype(np.float64) - float(logits.max())) / self._temperature
        weights = np.exp(scaled)
        ids, shares = _nucleus(weights / weights.sum(), self._top_p)
        edges = np.cumsum(shares)
        drawn = self._rng.random() * edges[-1]
        return int(ids[min(int(np.searchsorted(edges, drawn, side="right")), len(ids) - 1)])


def _nucleus(
    shares: np.ndarray[tuple[int], np.dtype[np.float64]], top_p: float
) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The likeliest tokens whose shares first add up to `top_p`, likeliest first; ties by id.

    Nearly always a short head of the distribution is enough, which spares sorting the whole vocabulary.
    """
    head = np.argpartition(-shares, min(_HEAD, len(shares) - 1))[:_HEAD]
    if top_p >= 1.0 or float(shares[head].sum()) < top_p:
        head = np.arange(len(shares))
    head = head[np.lexsort((head, -shares[head]))]
    reached = int(np.searchsorted(np.cumsum(shares[head]), top_p, side="left"))
    head = head[: reached + 1]
    return head, shares[head]
