"""Which of our tensors a checkpoint's settings mean, where they name modules.

In: names and patterns of modules, as `modules_to_not_convert`, `ignore`, `exclude_modules` or `quantized_layers` have
them. Out: what they say of a tensor in a layer. Invariant: bounded work whatever a card holds: patterns are few and
simple, the rest is looked up.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Generic, TypeVar

from accord.terms.tensors import Tensor

T = TypeVar("T")

NAMES_MAX = 1 << 18  # MiniMax-M3 names each matrix of each expert: 23 thousand
PATTERNS_MAX = 1 << 14
# What a regular expression of a card may be made of, so that none can take for ever.
_SIMPLE = re.compile(r"(?:[\w/-]|\\[.d]\+?|\.\*|\.|\((?:\?:)?[\w|]*\)|\[[\w-]+\]\+?|[$^])*")
_WILD_MAX = 3
_REGEXES_MAX = 64

# The words that lead up to the layers; they differ between releases of one model.
_LEADS = re.compile(r"^(?:(?:model|language_model|backbone|transformer|text_model|thinker|decoder)\.)+")
_LAYER = re.compile(r"(?:layers|h|blocks)\.(\d+|\*)(?:\.(.*))?$", re.DOTALL)
_DIGIT = re.compile(r"\d")
_EXPERT = re.compile(r"\bexperts\.(?:\d+|\*)")

# A tensor's name here is GROUP.SIDE; its module in a checkpoint is one of these, below its layer.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn", "attn", "mixer"),
    "cross": ("encoder_attn", "cross_attn"),
    "heavy": ("attn",),
    "sparse": ("attn", "self_attn"),
    "lightning": ("self_attn",),
    "delta": ("linear_attn", "self_attn"),
    "mamba": ("mixer", "mamba"),
    "indexer": ("self_attn.indexer", "attn.indexer", "self_attn"),
    "mlp": ("mlp", "feed_forward", "mixer", "ffn"),
    "experts": (
        "mlp.experts.#", "block_sparse_moe.experts.#", "mixer.experts.#", "ffn.experts.#", "feed_forward.experts",
        "experts", "moe.experts.#",
    ),
    "shared": (
        "mlp.shared_experts", "mlp.shared_expert", "block_sparse_moe.shared_experts", "mixer.shared_experts",
        "ffn.shared_experts", "feed_forward.shared_expert", "share_expert",
    ),
}  # fmt: skip
# Where one family's modules lie elsewhere: Gemma 4 has experts beside a dense block, not in it.
_OWN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gemma4": {"experts": ("experts.#",)},
    "gemma4_text": {"experts": ("experts.#",)},
}
_ROUTERS = (
    "mlp.gate",
    "block_sparse_moe.gate",
    "mixer.gate",
    "ffn.gate",
    "mlp.router",
    "feed_forward.router",
    "router",
)
_SIDES: Mapping[str, tuple[str, ...]] = {
    "q": ("q_proj", "in_proj_qkv"),
    "k": ("k_proj", "in_proj_qkv"),
    "v": ("v_proj", "in_proj_qkv"),
    "qkv": ("in_proj_qkv", "qkv_proj"),
    "o": ("o_proj", "out_proj"),
    "out": ("out_proj", "o_proj"),
    "in": ("in_proj",),
    "z": ("in_proj_z", "in_proj"),
    "x": ("in_proj",),
    "bc": ("in_proj",),
    "dt": ("in_proj",),
    "a": ("in_proj_a",),
    "b": ("in_proj_b",),
    "q_a": ("q_a_proj", "wq_a"),
    "q_b": ("q_b_proj", "wq_b"),
    "kv": ("wkv",),
    "kv_a": ("kv_a_proj_with_mqa",),
    "kv_b": ("kv_b_proj",),
    "o_a": ("wo_a",),
    "o_b": ("wo_b",),
    "gate": ("gate_proj", "w1"),
    "up": ("up_proj", "w3", "w1"),
    "down": ("down_proj", "w2"),
}
_INDEXER: Mapping[str, tuple[str, ...]] = {
    "q": ("wq_b", "index_q_proj"),
    "k": ("wk", "index_k_proj"),
    "weights": ("weights_proj", "indexers_proj"),
}
# What stands outside the layers, and what other stages are called.
_OUTSIDE: Mapping[str, tuple[str, ...]] = {
    "lm_head": ("lm_head", "head"),
    "embed_tokens": ("embed_tokens", "embeddings", "embed"),
}
_TOWERS: Mapping[str, tuple[str, ...]] = {
    "vision": (
        "visual", "vision_tower", "vision_model", "multi_modal_projector", "mm_projector", "embed_vision",
        "patch_merge_mlp",
    ),
    "audio": ("audio_tower", "embed_audio"),
}  # fmt: skip


# What no format but the plain one ever holds, and layers that don't run by default.
_PLAIN_ANYWAY = re.compile(
    r"norm|bias|conv1d|rotary|shared_expert_gate|lm_head|embed_tokens|\bmtp\b|\bnextn\b", re.IGNORECASE
)
_NUMBER = re.compile(r"\blayers\.(\d+)")


class Named(Generic[T]):
    """What settings say of modules, by their names and by patterns of them. The first that says something counts."""

    def __init__(self) -> None:
        self._exact: dict[str, T] = {}
        self._anywhere: dict[str, T] = {}
        self._patterns: list[tuple[re.Pattern[str], T]] = []
        self._layers: dict[str, list[tuple[re.Pattern[str], T]]] = {}
        self._numbered: list[tuple[re.Pattern[str], T]] = []
        self._count = self._regexes = 0
        self._known: dict[str, T | None] = {}
        self._given: dict[str, str] = {}  # an entry's key -> the name or pattern as the card has it
        self._met: set[str] = set()

    def __bool__(self) -> bool:
        return bool(len(self))

    def __len__(self) -> int:
        return len(self._exact) + len(self._anywhere) + self._count

    def unmet(self) -> tuple[str, ...]:
        """Names and patterns, as the card has them, that have said nothing of any tensor so far."""
        return tuple(name for key, name in self._given.items() if key not in self._met)

    def add(self, name: str, said: T) -> str | None:
        """Takes in one name or pattern; gives what is wrong with it, or None."""
        if name.startswith("re:"):
            return self._add_regex(name, said)
        plain = _LEADS.sub("", name)
        plain = _EXPERT.sub("experts.#", plain) if "experts." in plain else plain
        layer = _LAYER.match(plain)
        if "*" not in plain or (layer and layer[1] == "*" and "*" not in (layer[2] or "")):
            self._given.setdefault(_place(layer) if layer else plain, name)
            return self._add_exact(plain, layer, said)
        self._count += 1
        if layer and layer[1] != "*":
            made = _glob(layer[2] or "*")
            self._layers.setdefault(layer[1], []).append((made, said))
        else:
            made = _glob(plain)
            (self._numbered if _DIGIT.search(plain) else self._patterns).append((made, said))
        self._given.setdefault(made.pattern, name)
        return None if self._count <= PATTERNS_MAX else f"more than {PATTERNS_MAX} patterns"

    def of(self, tensor: Tensor, layer: int | None, *, kind: str = "") -> T | None:
        """What is said of a tensor in a layer of a `kind` of model; None if nothing is."""
        if tensor.name in _OUTSIDE:
            return next((said for name in _OUTSIDE[tensor.name] if (said := self._of(name)) is not None), None)
        for name in _modules(tensor.name, _OWN.get(kind, {})):
            said = self._of(name) if layer is None else self._in_layer(layer, name)
            if said is not None:
                return said
        return None

    def tower(self, kind: str) -> T | None:
        """What is said of a whole encoder ("vision", "audio"), by its usual names."""
        for name in _TOWERS.get(kind, ()):
            said = self._of(f"{name}.blocks.0")
            if said is not None:
                return said
        return None

    def _add_exact(self, plain: str, layer: re.Match[str] | None, said: T) -> str | None:
        if layer:
            if self._exact.setdefault(_place(layer), said) != said:
                return "two experts of one layer are stored differently"
        else:
            self._anywhere.setdefault(plain, said)
        return None if len(self._exact) + len(self._anywhere) <= NAMES_MAX else f"more than {NAMES_MAX} names"

    def _add_regex(self, name: str, said: T) -> str | None:
        text = name.removeprefix("re:")
        wild = text.count("*") + text.count("+")
        self._regexes += 1
        if len(text) > 200 or wild > _WILD_MAX or self._regexes > _REGEXES_MAX or not _SIMPLE.fullmatch(text):
            return "not a simple pattern, or too many of them"
        try:
            made = re.compile(text)
        except re.error as error:
            return f"not a pattern: {error}"
        self._count += 1
        self._given.setdefault(text, name)
        (self._numbered if _DIGIT.search(text) else self._patterns).append((made, said))
        return None if self._count <= PATTERNS_MAX else f"more than {PATTERNS_MAX} patterns"

    def _in_layer(self, layer: int, name: str) -> T | None:
        for whole in _prefixes(name):
            for place in (f"{layer}.{whole}", f"*.{whole}"):
                if place in self._exact:
                    self._met.add(place)
                    return self._exact[place]
        said = self._first(self._layers.get(str(layer), ()), name)
        if said is None:
            said = self._first(self._numbered, f"layers.{layer}.{name}")
        return said if said is not None else self._of(f"layers.0.{name}")

    def _of(self, name: str) -> T | None:
        """What entries that hold in any layer say."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: str) -> T | None:
        """A name that this one begins or ends with, or a pattern."""
        if self._anywhere:
            words = name.split(".")
            for cut in range(len(words)):
                for part in (".".join(words[: len(words) - cut]), ".".join(words[cut:])):
                    if part in self._anywhere:
                        self._met.add(part)
                        return self._anywhere[part]
        return self._first(self._patterns, name)

    def _first(self, patterns: Sequence[tuple[re.Pattern[str], T]], name: str) -> T | None:
        for pattern, said in patterns:
            if any(pattern.match(whole) for whole in (name, f"{name}.weight", f"model.{name}")):
                self._met.add(pattern.pattern)
                return said
        return None


def unknown_modules(names: Named[T], tensors: Sequence[Tensor], *, kind: str) -> tuple[str, ...]:
    """Names and patterns that stand for none of these tensors, and might for matrices of the model."""
    layers = 1 + max((layer for tensor in tensors for layer in tensor.layers), default=-1)
    left = [name for name in names.unmet() if not _PLAIN_ANYWAY.search(name) and _inside(name, layers)]
    while left:
        alone: Named[bool] = Named()  # without the entries that were asked first
        for name in left:
            alone.add(name, True)
        for tensor in tensors:
            for layer in tensor.layers or (None,):
                alone.of(tensor, layer, kind=kind)
        for tower in _TOWERS:
            alone.tower(tower)
        met = len(left) - len(alone.unmet())
        left = list(alone.unmet())
        if not met:
            break
    return tuple(left)


def _inside(name: str, layers: int) -> bool:
    number = _NUMBER.search(name)
    return number is None or int(number[1]) < layers


def _place(layer: re.Match[str]) -> str:
    return f"{layer[1]}.{layer[2] or ''}"


def _modules(tensor: str, own: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The names that a tensor's module may have below its layer."""
    words = tensor.split(".")
    if words[-1] == "router":
        yield from _ROUTERS
        return
    group, side = words[0].removesuffix("_expert").removesuffix("_experts"), words[-1]
    sides = _INDEXER if group == "indexer" else _SIDES
    for above in own.get(group, _GROUPS.get(group, ())):
        for name in sides.get(side, (side,)):
            yield f"{above}.{name}"


def _prefixes(name: str) -> Iterator[str]:
    """A module and those that hold it, the innermost first, the layer itself last; fused experts have no number."""
    words = name.split(".")
    for count in range(len(words), -1, -1):
        yield ".".join(words[:count])


def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))
