"""Infeasible is a value, not an exception.

In: nothing. Out: `Refusal`. Invariant: it names the field that can't be met and at least one way out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an intent can't be met. `field` is a dotted path such as `objectives.ttft_p99`."""

    field: str
    value: str
    limit: str
    causes: tuple[str, ...]
    fix: tuple[str, ...]
    may_retry: bool = False
