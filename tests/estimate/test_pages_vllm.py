"""Our page plans beside vLLM's own grouping, in the same memory, for the same requests.

vLLM's side is vLLM 0.30.0's code (kv_cache_utils, kv_cache_interface, its alignment of hybrid models), in a child
process, in the better of two cache layouts. Each side holds the same entries, keeps one page aside, gives windows
back page by page, and is asked for requests of one exact length that decode (one token a step in flight).
"""

import random

import pytest

from _vllm_pages import PEERS, PageCase, VllmPlan, vllm_plans
from accord.edges.model_card import find_card
from accord.estimate.cache import on_rank
from accord.estimate.pages import page_plan
from accord.models.read import read_card
from accord.terms.cache import CacheGroup
from accord.terms.pages import Length, PagePlan
from accord.terms.tensors import Dtype

_GIB = 1 << 30
_NAMED = ("gemma-3-27b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-next-80b-a3b", "gemma-4-26b-a4b", "gemma-4-31b")
_OTHERS = (
    "gemma-2-9b", "qwen3.5-27b", "qwen3.5-397b-a17b", "step-3.7-flash", "kimi-linear-48b-a3b", "jamba-1.5-mini",
    "nemotron-3-nano-30b-a3b", "mimo-v2-flash", "llama-4-scout", "minimax-text-01", "qwen3-32b", "deepseek-v3.2",
)  # fmt: skip
_SEED = 1
_FEW = (1024, 32_768)
_LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


def _groups(name: str) -> tuple[CacheGroup, ...]:
    return read_card(find_card(name).values, name=name).of("decoder").cache


_PLAIN = PageCase(groups=_groups("qwen3-32b"), tokens=4096, memory_bytes=60 * _GIB)


def _cases(names: tuple[str, ...], seed: int) -> list[tuple[str, PageCase]]:
    """Round lengths in 60 GiB, then lengths, memories, ranks and dtypes as they fall."""
    dice = random.Random(seed)
    made = []
    for name in names:
        groups = _groups(name)
        lengths = _LENGTHS if name in _NAMED else _FEW
        made += [(name, PageCase(groups=groups, tokens=tokens, memory_bytes=60 * _GIB)) for tokens in lengths]
        for _ in range(4):
            case = PageCase(
                groups=on_rank(groups, dice.choice((1, 2))),
                tokens=int(2 ** dice.uniform(8, 17)),
                memory_bytes=int(2 ** dice.uniform(32, 37)),
                dtype=dice.choice((Dtype.BF16, Dtype.FP8)),
            )
            made.append((name, case))
    return made


def _ours(case: PageCase) -> PagePlan | None:
    exact = (Length(tokens=case.tokens, exact=True),)
    plan = page_plan(case.groups, memory_bytes=case.memory_bytes, dtype=case.dtype, lengths=exact)
    return plan if isinstance(plan, PagePlan) else None


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, PageCase, VllmPlan]]:
    """All cases with vLLM's plans; one child process, since importing torch is most of its time."""
    cases = [("qwen3-32b", _PLAIN), *_cases(_NAMED + _OTHERS, _SEED)]
    plans = vllm_plans(case for _, case in cases)
    assert plans is not None, f"vLLM isn't in {PEERS}; run tools/setup dev"
    return [(name, case, plan) for (name, case), plan in zip(cases, plans, strict=True)]


def test_our_plans_hold_at_least_what_vllm_holds(asked):
    for name, case, theirs in asked:
        ours = _ours(case)
        held = ours.requests if ours is not None else 0
        assert held >= theirs.requests >= 0, f"seed {_SEED}: {name}, {case.tokens} tokens in {case.memory_bytes} bytes"


@pytest.mark.parametrize("name", _NAMED)
def test_our_plans_waste_four_percent_at_most(name):
    groups = _groups(name)
    for dtype in (Dtype.BF16, Dtype.FP8):
        for tokens in (300, 470, 1000, *_LENGTHS, 5000, 20_001):
            plan = _ours(PageCase(groups=groups, tokens=tokens, memory_bytes=120 * _GIB, dtype=dtype))
            assert plan is not None
            assert plan.waste <= 0.04, f"{tokens} tokens, {dtype}"


def test_vllm_plans_one_kind_of_layer_as_we_do(asked):
    """A check of the child process itself: 8 KV heads of 128, 64 layers, 16 tokens a block."""
    plan = next(plan for _, case, plan in asked if case is _PLAIN)
    assert (plan.block_bytes, plan.block_tokens, plan.request_blocks, plan.groups) == (4 << 20, 16, 256, 1)
    assert plan.blocks == 60 * _GIB // (4 << 20)
