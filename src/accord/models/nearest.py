"""Which family an unknown architecture is nearest to, and why.

In: a card whose `model_type` no family knows. Out: `Near`. Invariant: it is a hint for a person, never a reading.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from accord.models.card import Card, Json
from accord.models.families.decoders.table import FAMILIES as DECODERS
from accord.models.families.family import Family
from accord.models.families.table import FAMILIES

# Keys that give an architecture away, the most telling first.
_TELLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("thinker_config",), "qwen-omni"),
    (("transformer", "vae"), "diffusion"),
    (("index_topk",), "sparse-index"),
    (("compress_ratios",), "deepseek-v4"),
    (("num_mel_bins", "decoder_layers"), "whisper"),
    (("linear_num_key_heads",), "qwen-hybrid"),
    (("mamba_num_heads",), "nemotron-h"),
    (("hybrid_override_pattern",), "nemotron-h"),
    (("mamba_d_state",), "jamba"),
    (("block_configs",), "nas"),
    (("kv_lora_rank",), "mla"),
    (("vision_config", "text_config"), "llava"),
    (("num_local_experts",), "moe"),
    (("num_experts",), "moe"),
    (("n_routed_experts",), "moe"),
    (("hidden_size", "num_attention_heads"), "dense"),
)
_ALIKE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A family, what makes it the nearest, and what to write after --like."""

    family: Family
    why: str
    like: str


def nearest(card: Card, kind: str) -> Near | None:
    """The nearest family, by the architecture's name, by names like it, or by keys that give it away."""
    by_type = {name: family for family in FAMILIES for name in family.model_types}
    for name in _architectures(card):
        if name in by_type:
            return Near(family=by_type[name], why=f"`architectures` names {name}", like=name)
    # A composed card is nearest to no lone decoder, however alike their names are; all pipelines' names are alike.
    alike = [name for name, family in by_type.items() if not (_text(card) and family in DECODERS)]
    for name in difflib.get_close_matches(kind[:80].removesuffix("Pipeline"), alike, n=1, cutoff=_ALIKE):
        return Near(family=by_type[name], why=f"{name} is named alike", like=name)
    for keys, family in _TELLS:
        if all(key in card or key in _text(card) for key in keys):
            return Near(family=_named(family), why=f"the card has {' and '.join(keys)}", like=family)
    return None


def _architectures(card: Card) -> tuple[str, ...]:
    """ "Qwen3MoeForCausalLM" -> "qwen3_moe"."""
    value = card.raw("architectures")
    names = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    stems = (re.sub(r"(For[A-Z].*|Model|LMHeadModel)$", "", name[:80]) for name in names[:4])
    return tuple(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower() for stem in stems)


def _text(card: Card) -> Mapping[str, Json]:
    value = card.raw("text_config")
    return value if isinstance(value, Mapping) else {}


def _named(name: str) -> Family:
    return next(family for family in FAMILIES if family.name == name)
