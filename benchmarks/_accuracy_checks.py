"""Estimates held against measurements that nothing here was fitted to, on devices that no fit has seen.

In: the catalog, `estimate/tuning.yaml`. Out: figures, each predicted over measured. Invariant: the figures measured
are published ones, and stand here beside their source.
"""

from collections.abc import Iterator

import numpy as np

from _figures import Figure
from accord.edges.fleet_kinds import catalog_kind
from accord.edges.model_catalog import entry
from accord.edges.tuning_file import load_tunings
from accord.estimate.form import Form, form
from accord.estimate.performance import Performance, Tuning, performance
from accord.estimate.step import Step, step_times
from accord.estimate.tuned import tags_of, tuned
from accord.models.read import read_card
from accord.terms.architecture import Stored
from accord.terms.layout import Layout
from accord.terms.refusal import Refusal
from accord.terms.tensors import Dtype, Quantization

_DIES = 2  # of a 910C package
_GEMMS = {"ascend-910b3": 304e12, "iluvatar-bi-v150": 196.8e12}
_MEMORIES = {"iluvatar-bi-v150": 590e9, "metax-c550": 1443e9}


def checks() -> Iterator[Figure]:
    """All of them."""
    yield from _cloud_matrix()
    yield _mixed()
    yield from _flag_perf()


def _ratio(name: str, value: float) -> Figure:
    return Figure(name=f"untuned {name}", value=value, unit="predicted / measured", better="lower")


def _cloud_matrix() -> Iterator[Figure]:
    """CloudMatrix384 (arXiv 2506.12708): DeepSeek-R1 in INT8 on Ascend 910C, experts over 32 dies that read prompts of
    4,096 tokens, 6,688 a second and package; over 320 that write, 96 requests a package at 49.4 ms (1,943 tokens/s)
    and 8 at 14.9 ms (538), caches of 4,096 tokens, one drafted token taken 70% of the time.
    """
    stored = Stored(quantization=Quantization.INT8)
    made, device = _replica("deepseek-r1", "ascend-910c", stored, Layout(experts=32), cards=384 * _DIES)
    prompt = Step(prompts=np.array([4.0 * 32]), new=np.array([4096.0]))  # 16k tokens a die
    taken = float(step_times(made, device, prompt).total[0])
    yield _ratio("cloudmatrix prefill", 4.0 * 4096 * _DIES / taken / 6688)
    made, device = _replica("deepseek-r1", "ascend-910c", stored, Layout(experts=256), cards=384 * _DIES)
    for batch, tpot_s in ((96, 49.4e-3), (8, 14.9e-3)):
        # Two tokens of each sequence go through a step: the drafted one is checked beside the next.
        sequences = np.array([2.0 * batch / _DIES * made.data])
        step = Step(decode=sequences, context=np.array([4096.0]))
        taken = float(step_times(made, device, step).total[0]) / 1.7
        yield _ratio(f"cloudmatrix decode {batch}", taken / tpot_s)


def _mixed() -> Figure:
    """MLPerf Inference llama2-70b Server, 32 x MI300X + 16 x MI325X: 153,076 tokens/s, 94% of its parts' sum.

    About 294 tokens in and as many out; here in batches of 512.
    """
    total = 0.0
    for kind, count in (("mi300x", 32), ("mi325x", 16)):
        stored = Stored(quantization=Quantization.FP8)
        made, device = _replica("llama-3.1-70b", kind, stored, Layout(), cards=8)
        step = Step(
            decode=np.array([512.0]), context=np.array([441.0]), prompts=np.array([512.0 / 294]), new=np.array([294.0])
        )
        total += count * 512.0 / float(step_times(made, device, step).total[0])
    return _ratio("mlperf mixed fleet", total / 153_076)


def _flag_perf() -> Iterator[Figure]:
    """FlagPerf's bf16 GEMM of Atlas 800T A2 and BI-V150, and memory of BI-V150 and C550."""
    for name, measured in _GEMMS.items():
        peak = next(rate.flops_per_s.value for rate in catalog_kind(name).rates if rate.math.value == "bf16")
        yield _ratio(f"flagperf gemm {name}", Tuning().gemm * peak / measured)
    for name, measured in _MEMORIES.items():
        speed = catalog_kind(name).bandwidth_bytes_per_s
        assert speed is not None
        yield _ratio(f"flagperf memory {name}", Tuning().memory * speed.value / measured)


def _replica(model: str, kind: str, stored: Stored, layout: Layout, *, cards: int) -> tuple[Form, Performance]:
    needs = read_card(entry(model).card, name=model).of("decoder")
    made = form(needs, stored, layout, cache_dtype=Dtype.BF16)
    assert not isinstance(made, Refusal), made
    known = tags_of(needs, stored, kind=load_tunings().kinds.get(kind, ()))
    tuning, _ = tuned(load_tunings(), known)
    device = performance(catalog_kind(kind), tuning, engine="", node_cards=cards)
    assert not isinstance(device, Refusal), device
    return made, device
