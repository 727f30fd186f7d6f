"""KV page plans beside vLLM's own: tokens that fit in 60 GiB of cache in bf16, and what is wasted.

For each model and length, `tokens` is whole requests times their length; the bar is what vLLM's own grouping holds,
computed by its code in this run. `waste` is the worst over the lengths, of a request's bytes. `over plain` is the best
over the lengths, against one block table for all layers at the largest head size, where one request fits in it.
"""

from collections.abc import Iterator

from _figures import Figure, write
from _vllm_pages import PageCase, VllmPlan, vllm_plans
from accord.edges.model_card import find_card
from accord.estimate.pages import page_plan, plain_requests
from accord.models.read import read_card
from accord.terms.cache import CacheGroup
from accord.terms.pages import Length, PagePlan

HELD_TO_A_BAR = (
    "gemma-3-27b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-next-80b-a3b", "gemma-4-26b-a4b", "gemma-4-31b",
)  # fmt: skip
MODELS = (
    *HELD_TO_A_BAR,
    "mimo-v2-flash", "kimi-linear-48b-a3b", "qwen3.5-397b-a17b", "nemotron-3-nano-30b-a3b",
)  # fmt: skip
LENGTHS = (256, 1024, 4096, 32_768, 131_072)
MEMORY_BYTES = 60 << 30


def main() -> None:
    """Plans all, asks vLLM for all, writes the figures."""
    cases = {
        name: [PageCase(groups=_groups(name), tokens=tokens, memory_bytes=MEMORY_BYTES) for tokens in LENGTHS]
        for name in MODELS
    }
    asked = vllm_plans(case for mine in cases.values() for case in mine)
    theirs = iter(asked if asked is not None else [None] * len(MODELS) * len(LENGTHS))
    figures: list[Figure] = []
    for name, mine in cases.items():
        figures += _of_model(name, [(case, next(theirs)) for case in mine])
    write("pages", figures)


def _groups(name: str) -> tuple[CacheGroup, ...]:
    return read_card(find_card(name).values, name=name).of("decoder").cache


def _of_model(name: str, cases: list[tuple[PageCase, VllmPlan | None]]) -> Iterator[Figure]:
    waste, over = [], []
    for case, theirs in cases:
        exact = (Length(tokens=case.tokens, exact=True),)
        plan = page_plan(case.groups, memory_bytes=case.memory_bytes, dtype=case.dtype, lengths=exact)
        if not isinstance(plan, PagePlan):
            raise TypeError(f"{name} at {case.tokens} tokens: {plan}")
        peer = None if theirs is None else float(theirs.requests * case.tokens)
        yield Figure(
            name=f"{name} tokens at {case.tokens}",
            value=float(plan.tokens),
            unit="tokens",
            better="higher",
            bar=peer,
            peer="vllm",
            peer_value=peer,
        )
        waste.append(plan.waste)
        plain = plain_requests(case.groups, memory_bytes=case.memory_bytes, dtype=case.dtype, lengths=exact)
        over += [plan.requests / plain] if plain else []
    bar = 4.0 if name in HELD_TO_A_BAR else None
    yield Figure(name=f"{name} waste", value=100 * max(waste), unit="%", better="lower", bar=bar)
    yield Figure(name=f"{name} over plain", value=max(over), unit="x", better="higher")


if __name__ == "__main__":
    main()
