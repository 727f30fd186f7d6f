"""How many steps each denoiser of a pipeline takes.

In: a pipeline's card. Out: `Schedule`. Where two denoisers share a request (Wan 2.2), the noisier steps are the first
one's: those whose time is at least `boundary_ratio` of the whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accord.models.card import Card

_TIMES = 1000  # training steps that times are counted in


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps of each denoiser, and words about them."""

    stages: tuple[tuple[int, str], ...]


def schedule(card: Card, *, steps: int, stages: int) -> Schedule:
    """The steps of a pipeline with one denoiser or two."""
    if stages == 1:
        card.skip("boundary_ratio")
        return Schedule(stages=((steps, f"{steps} steps a request, each over the whole latent"),))
    boundary = card.number("boundary_ratio")
    if not 0 < boundary < 1:
        card.wrong("boundary_ratio", problem="out of range", fix="write a number between 0 and 1")
    shift = _shift(card)
    if shift is None:
        words = f"{steps} steps a request, shared by both denoisers: add the scheduler to know who takes which"
        return Schedule(stages=((steps, words),) * 2)
    noisy = sum(time >= boundary * _TIMES for time in times(steps, shift=shift))
    return Schedule(
        stages=(
            (noisy, f"the {noisy} noisier of {steps} steps (time {boundary:g} and up)"),
            (steps - noisy, f"the {steps - noisy} less noisy of {steps} steps (below time {boundary:g})"),
        )
    )


def times(steps: int, *, shift: float) -> tuple[int, ...]:
    """The times of a flow-matching schedule from 1 down, shifted towards noise (arXiv 2403.03206, section 5.3.2)."""
    plain = (1 + index / steps * (1 / _TIMES - 1) for index in range(steps))
    return tuple(min(_TIMES - 1, int(_TIMES * shift * time / (1 + (shift - 1) * time))) for time in plain)


def _shift(card: Card) -> float | None:
    """The scheduler's shift towards noise; None where the card has no scheduler."""
    value = card.raw("scheduler")
    if value is None or isinstance(value, list | tuple):
        return None
    below = card.sub("scheduler")
    below.skip(*(value if isinstance(value, Mapping) else ()))
    shift = below.number("flow_shift", below.number("shift", 1.0))
    if not 0 < shift < _TIMES:
        below.wrong("flow_shift", problem="out of range", fix="write a number such as 3.0")
    return shift
