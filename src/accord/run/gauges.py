"""What the service counts, and its objectives against what was measured.

In: the fates of requests. Out: `Totals` and `ObjectiveStatus`. Invariant: every submitted request is counted
once, by its end or as queued or active. Percentiles are over the last `SAMPLES_MAX` requests.
"""

import asyncio
import math
import time
from collections import deque

from accord.run.ticket import LiveTicket
from accord.terms.errors import Overloaded
from accord.terms.intent import Metric, Objective
from accord.terms.request import Done, ErrorCode, Failed
from accord.terms.status import ObjectiveStatus, Totals

SAMPLES_MAX = 1024


class Gauges:
    """Counts since the start of the service."""

    def __init__(self, objectives: tuple[Objective, ...]) -> None:
        self.submitted = 0
        self.replayed = 0
        self._done = 0
        self._failed = 0
        self._cancelled = 0
        self._refused = 0
        self._objectives = objectives
        self._samples: dict[Metric, deque[float]] = {metric: deque(maxlen=SAMPLES_MAX) for metric in Metric}

    def turned_away(self, error: BaseException) -> None:
        """A request was not accepted."""
        if isinstance(error, Overloaded):
            self._refused += 1
        elif isinstance(error, asyncio.CancelledError):
            self._cancelled += 1
        else:
            self._failed += 1

    def ended(self, ticket: LiveTicket, end: Done | Failed) -> None:
        """An accepted request has ended."""
        match end:
            case Done():
                self._done += 1
                self._measure(ticket, end)
            case Failed(code=ErrorCode.CANCELLED):
                self._cancelled += 1
            case Failed():
                self._failed += 1

    def totals(self, *, queued: int) -> Totals:
        """The counts; what is neither ended nor queued is active."""
        ended = self._done + self._failed + self._cancelled + self._refused
        return Totals(
            submitted=self.submitted,
            done=self._done,
            failed=self._failed,
            cancelled=self._cancelled,
            refused=self._refused,
            queued=queued,
            active=self.submitted - ended - queued,
            replayed=self.replayed,
        )

    def objectives(self) -> tuple[ObjectiveStatus, ...]:
        """Each objective with its measured percentile."""
        return tuple(
            ObjectiveStatus(
                objective=objective,
                measured=percentile(self._samples[objective.metric], objective.percentile),
                samples=len(self._samples[objective.metric]),
            )
            for objective in self._objectives
        )

    def _measure(self, ticket: LiveTicket, end: Done) -> None:
        arrived = ticket.arrived_ns
        now = time.monotonic_ns()
        self._samples[Metric.LATENCY].append((now - arrived) / 1e9)
        if ticket.first_text_ns:
            self._samples[Metric.TTFT].append((ticket.first_text_ns - arrived) / 1e9)
            if end.usage.completion_tokens > 1 and ticket.last_text_ns > ticket.first_text_ns:
                spent_s = (ticket.last_text_ns - ticket.first_text_ns) / 1e9
                self._samples[Metric.TPOT].append(spent_s / (end.usage.completion_tokens - 1))
        if ticket.first_audio_ns:
            self._samples[Metric.FIRST_AUDIO].append((ticket.first_audio_ns - arrived) / 1e9)
        if ticket.audio_out_s:
            self._samples[Metric.RTF].append((now - arrived) / 1e9 / ticket.audio_out_s)


def percentile(samples: deque[float], rank: float) -> float | None:
    """The nearest-rank percentile (0 to 100); None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(rank / 100 * len(ordered)) - 1)]
