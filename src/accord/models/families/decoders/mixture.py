"""Feed-forward blocks of decoders that mix experts in some layers and are dense in others.

In: a `Mixture`, read from a card by its family. Out: `Parts`. Invariant: each layer has experts or a dense block.
"""

from dataclasses import dataclass

from accord.models.card import Card
from accord.models.parts.feedforward import experts, gated
from accord.models.parts.parts import Layers, Parts, linear
from accord.terms.tensors import Dtype, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """`sparse` layers send each token through `chosen` of `count` experts of `width`, and all through `shared` more.

    `shared_gate`: a learned factor on the shared expert's output (Qwen2-MoE). `correction`: scores that balance the
    router (DeepSeek-V3). `bias`: of experts and router (gpt-oss).
    """

    sparse: Layers
    count: int
    chosen: int
    width: int
    dense: Layers = ()
    dense_width: int = 0
    shared: int = 0
    shared_gate: bool = False
    correction: bool = False
    bias: bool = False
    router_dtype: Dtype = Dtype.BF16


def mixture_parts(hidden: int, mixture: Mixture) -> Parts:
    """Dense blocks, routers, experts and shared experts."""
    made = gated(mixture.dense, hidden=hidden, width=mixture.dense_width) + experts(
        mixture.sparse,
        hidden=hidden,
        width=mixture.width,
        count=mixture.count,
        chosen=mixture.chosen,
        bias=mixture.bias,
        router_bias=mixture.bias,
        correction=mixture.correction,
        router_dtype=mixture.router_dtype,
    )
    if not mixture.sparse or not mixture.shared:
        return made
    made += gated(mixture.sparse, hidden=hidden, width=mixture.shared, name="shared")
    if mixture.shared_gate:
        made += linear("shared.router", hidden, 1, mixture.sparse, part=Part.ROUTER, quantizable=False)
    return made


def check_groups(card: Card, *, count_key: str, mixture: Mixture) -> None:
    """Node-limited routing (DeepSeek-V3, 2.1.2) takes experts from `topk_group` of `n_group` groups: they must do."""
    groups = card.size("n_group", 1)
    taken = card.size("topk_group", 1)
    card.divides(count_key, mixture.count, groups, by="n_group")
    if taken > groups:
        card.wrong("topk_group", problem=f"more than n_group = {groups}", fix=f"write {groups} at most")
    if mixture.chosen > taken * (mixture.count // groups):
        card.wrong(
            "num_experts_per_tok",
            problem=f"more than {taken} groups of {mixture.count // groups} experts hold",
            fix="take fewer experts, or more groups",
        )
