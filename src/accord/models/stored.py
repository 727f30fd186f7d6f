"""How a card's published weights are stored.

In: the quantization settings of a card, and a stage's tensors. Out: `Stored`. Invariant: a method, format or width
that isn't known is BadInput, never taken for unquantized weights.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accord.models.card import Card
from accord.models.stored_names import NAMES_MAX, Named, unknown_modules
from accord.terms.architecture import Stored, StoredAs
from accord.terms.tensors import Quantization, Tensor

_KEY = "quantization_config"
_BLOCK = (128, 128)
_NAMES_SAID = 6  # names in a remark

_ALGORITHMS: Mapping[str, Quantization] = {
    "FP8": Quantization.FP8,
    "FP8_PB_WO": Quantization.FP8_BLOCK,
    "FP8_PER_CHANNEL_PER_TOKEN": Quantization.FP8_CHANNEL,
    "NVFP4": Quantization.NVFP4,
    "W4A16_NVFP4": Quantization.NVFP4,
    "MXFP4": Quantization.MXFP4,
    "MXFP8": Quantization.MXFP8,
    "W4A16_AWQ": Quantization.INT4_GROUP,
    "W4A8_AWQ": Quantization.INT4_GROUP,
    "INT4_AWQ": Quantization.INT4_GROUP,
    "INT8_SQ": Quantization.INT8,
    "W8A8_SQ_PER_CHANNEL": Quantization.INT8,
    "W8A16": Quantization.INT8,
    "MIXED_PRECISION": Quantization.NONE,
}
_OWN_GROUP = {Quantization.NVFP4: 16, Quantization.MXFP4: 32, Quantization.MXFP8: 32}


@dataclass(frozen=True, slots=True)
class _Kind:
    """One way of storing a matrix."""

    quantization: Quantization
    group: int | None = None


_PLAIN = _Kind(Quantization.NONE)


@dataclass(slots=True)
class _Settings:
    """What settings say: of matrices in general, of those that are named, and of those that stay plain."""

    kind: _Kind = _PLAIN
    scale_bits: int | None = None
    plain: Named[_Kind] = field(default_factory=Named)
    named: Named[_Kind] = field(default_factory=Named)
    experts: _Kind | None = None
    experts_only: bool = False
    model: str = ""
    tensors: list[Tensor] = field(default_factory=list)


def stored_of(
    stages: Iterable[tuple[Card, Sequence[Tensor]]], root: Card
) -> tuple[tuple[Stored, ...], tuple[str, ...]]:
    """The storage of each stage, by its own mapping's settings, else the whole card's; remarks."""
    read: dict[int, _Settings] = {}
    stored = tuple(_stored(card, root, tensors, read) for card, tensors in stages)
    return stored, tuple(remark for settings in read.values() for remark in _remarks(settings))


def _remarks(settings: _Settings) -> Iterator[str]:
    for names in (settings.plain, settings.named):
        unknown = unknown_modules(names, settings.tensors, kind=settings.model)
        if unknown:
            said = ", ".join(repr(name[:80]) for name in unknown[:_NAMES_SAID])
            more = f" and {len(unknown) - _NAMES_SAID} more" if len(unknown) > _NAMES_SAID else ""
            yield f"quantization settings name what no tensor here stands for, which could matter: {said}{more}"


def _stored(card: Card, root: Card, tensors: Sequence[Tensor], read: dict[int, _Settings]) -> Stored:
    holder = next((item for item in (card, root) if _KEY in item), None)
    if holder is None:
        card.skip(_KEY)
        return Stored()
    if id(holder) not in read:
        read[id(holder)] = _settings(holder.sub(_KEY), root)
        read[id(holder)].model = root.word("model_type", "")
    settings = read[id(holder)]
    settings.tensors.extend(tensors)
    return Stored(
        quantization=settings.kind.quantization,
        group=settings.kind.group,
        scale_bits=settings.scale_bits,
        exceptions=tuple(item for tensor in tensors for item in _exceptions(tensor, settings)),
    )


def _exceptions(tensor: Tensor, settings: _Settings) -> Sequence[StoredAs]:
    usual = settings.kind if tensor.quantizable else _PLAIN
    layers: dict[_Kind, list[int]] = {}
    for layer in tensor.layers or (-1,):
        kind = _of(tensor, None if layer < 0 else layer, settings)
        if kind != usual:
            layers.setdefault(kind, []).append(layer)
    return [
        StoredAs(
            tensor=tensor.name,
            layers=() if len(found) == len(tensor.layers or (-1,)) else tuple(found),
            quantization=kind.quantization,
            group=kind.group,
        )
        for kind, found in layers.items()
    ]


def _of(tensor: Tensor, layer: int | None, settings: _Settings) -> _Kind:
    """How one layer's tensor is stored. Only matrices are; embeddings and heads only where they are named."""
    if tensor.columns == 1:
        return _PLAIN
    named = settings.named.of(tensor, layer, kind=settings.model)
    if named is not None:
        return named
    if not tensor.quantizable:
        return _PLAIN
    expert = tensor.name.startswith("experts.")
    if settings.experts is not None and expert:
        return settings.experts
    if settings.experts_only and not expert:
        return _PLAIN
    tower = settings.plain.tower(tensor.name.partition(".")[0])
    if tower is not None or settings.plain.of(tensor, layer, kind=settings.model) is not None:
        return _PLAIN
    return settings.kind


def _settings(card: Card, root: Card) -> _Settings:
    if "quantization" in card:  # hf_quant_config.json as it stands beside a card
        card.skip("producer", "quant_method")
        card = card.sub("quantization")
    card.skip("kv_cache_scheme", "kv_cache_quant_algo", "producer", "activation_scheme", "quantization_status")
    method = card.choice("quant_method", tuple(_METHODS), "modelopt" if "quant_algo" in card else None)
    return _METHODS[method](card, root)


def _fp8(card: Card, root: Card) -> _Settings:
    """DeepSeek's and transformers' own fp8; DeepSeek-V4 stores its experts in 4 bits beside it."""
    card.choice("fmt", ("e4m3", "float8_e4m3fn", "e5m2"), "e4m3")
    card.skip("scale_fmt", "dequantize")
    made = _Settings(kind=_Kind(Quantization.FP8))
    if "weight_block_size" in card:
        if card.sizes("weight_block_size", least=1, count=2) != _BLOCK:
            card.wrong(
                "weight_block_size", problem="no such format", fix="write [128, 128], or null for whole matrices"
            )
        made.kind = _Kind(Quantization.FP8_BLOCK)
    if root.word("expert_dtype", "") == "fp4":
        made.experts = _Kind(Quantization.MXFP4)
        made.scale_bits = 8  # this release keeps all scales as 8-bit exponents
    _plain(card, made, "modules_to_not_convert", "ignored_layers")
    _quantized_layers(card, made)
    card.skip("quant_algo", "moe_quant_algo", "group_size", "config_groups", "ignore")
    return made


def _mxfp4(card: Card, root: Card) -> _Settings:
    """gpt-oss: experts only, whatever else isn't excluded."""
    del root
    made = _Settings(kind=_Kind(Quantization.MXFP4), experts_only=True)
    _plain(card, made, "modules_to_not_convert")
    card.skip("dequantize")
    return made


def _modelopt(card: Card, root: Card) -> _Settings:
    """ModelOpt's settings, in its own form or written like compressed-tensors."""
    del root
    algorithm = card.word("quant_algo", "") or "NONE"
    made = _Settings() if algorithm == "NONE" else _Settings(kind=_algorithm(card))
    _plain(card, made, "exclude_modules", "ignore")
    _quantized_layers(card, made)
    card.skip("config_groups", "group_size", "moe_quant_algo", "has_zero_point", "pre_quant_scale")
    return made


def _algorithm(card: Card) -> _Kind:
    quantization = _ALGORITHMS[card.choice("quant_algo", tuple(_ALGORITHMS))]
    if quantization is Quantization.INT4_GROUP:
        return _Kind(quantization, card.size("group_size", 128))
    own = _OWN_GROUP.get(quantization)
    group = card.maybe("group_size") if own is not None else None
    return _Kind(quantization, None if group == own else group)


def _quantized_layers(card: Card, made: _Settings) -> None:
    if "quantized_layers" not in card:
        return
    layers = card.sub("quantized_layers")
    kinds: dict[str, _Kind] = {}
    for name in layers.keys():  # noqa: SIM118, a card isn't a mapping
        said = layers.raw(name)
        if not isinstance(said, Mapping):
            layers.wrong(name, problem="not a mapping", fix='write {"quant_algo": ...}')
        key = f"{said.get('quant_algo')!r} {said.get('group_size')!r}"
        if key not in kinds:
            kinds[key] = _algorithm(layers.sub(name))
        _add(layers, name, made.named, name=name, kind=kinds[key])


def _compressed(card: Card, root: Card) -> _Settings:
    """compressed-tensors: groups of modules, each with its scheme."""
    del root
    card.skip(
        "format", "global_compression_ratio", "sparsity_config", "transform_config", "version", "quantization_status"
    )
    made = _Settings()
    groups = card.sub("config_groups")
    for number, name in enumerate(groups.keys()):
        group = groups.sub(name)
        group.skip("input_activations", "output_activations", "format")
        kind, scale_bits = _scheme(group.sub("weights"))
        made.scale_bits = scale_bits if number == 0 else made.scale_bits
        for target in group.words("targets"):
            if target == "Linear":
                made.kind = kind
            else:
                _add(group, "targets", made.named, name=target, kind=kind)
    _plain(card, made, "ignore")
    return made


def _scheme(card: Card) -> tuple[_Kind, int | None]:
    """One scheme of weights, and the bits of its scales where they aren't the format's own."""
    card.skip("dynamic", "observer", "observer_kwargs", "actorder", "block_structure", "zp_dtype", "scale_dtype")
    bits = card.size("num_bits", most=16)
    kind = card.choice("type", ("int", "float"), "int")
    strategy = card.choice("strategy", ("tensor", "channel", "group", "tensor_group", "block"), "tensor")
    group = card.maybe("group_size") if strategy in ("group", "tensor_group") else None
    card.skip("group_size", "block_structure")
    zero = None if card.flag("symmetric", True) else 16 + bits
    match kind, bits, strategy:
        case "float", 4, "tensor_group" | "group" if group == 16:
            return _Kind(Quantization.NVFP4), None
        case "float", 4, "group" if group == 32:
            return _Kind(Quantization.MXFP4), None
        case "float", 8, "tensor":
            return _Kind(Quantization.FP8), None
        case "float", 8, "channel":
            return _Kind(Quantization.FP8_CHANNEL), None
        case "float", 8, "block" if card.sizes("block_structure", count=2) in ((), _BLOCK):
            return _Kind(Quantization.FP8_BLOCK), None
        case "float", 8, "group" if group == 32:
            return _Kind(Quantization.MXFP8), None
        case "int", 8, "channel" | "group":
            return _Kind(Quantization.INT8, group), zero
        case "int", 4, "channel":
            return _Kind(Quantization.INT4_GROUP, 0), zero
        case "int", 4, "group":
            return _Kind(Quantization.INT4_GROUP, group), zero
        case _:
            pass
    fix = "known: 4-bit and 8-bit, int and float, by tensor, channel, group or 128 x 128 block"
    return card.wrong("num_bits", problem=f"no format is known for {kind} by {strategy}, group {group}", fix=fix)


def _packed(card: Card, root: Card) -> _Settings:
    """AWQ and GPTQ: whole numbers in groups, with zero points."""
    del root
    card.skip(
        "version", "backend", "do_fuse", "fuse_max_seq_len", "checkpoint_format", "damp_percent", "desc_act", "meta",
        "static_groups", "true_sequential", "model_name_or_path", "model_file_base_name", "dataset",
        "block_name_to_quantize",
        "exllama_config", "use_exllama", "use_cuda_fp16", "max_input_length", "tokenizer", "pad_token_id", "batch_size",
        "modules_in_block_to_quantize", "module_name_preceding_first_block", "cache_block_outputs", "model_seqlen",
    )  # fmt: skip
    bits = card.size("bits", card.maybe("w_bit") or 4)
    if bits not in (4, 8):
        card.wrong("bits", problem="no format is known for this width", fix="write 4 or 8")
    key = "q_group_size" if "q_group_size" in card else "group_size"
    group = card.size(key, 128, least=-1)
    card.skip("group_size", "q_group_size", "sym")
    pointed = card.flag("zero_point", True)
    kind = Quantization.INT4_GROUP if bits == 4 else Quantization.INT8
    made = _Settings(kind=_Kind(kind, max(0, group)), scale_bits=16 + bits if pointed else None)
    if card.flag("lm_head", False):
        made.named.add("lm_head", made.kind)
    _plain(card, made, "modules_to_not_convert")
    return made


def _fbgemm(card: Card, root: Card) -> _Settings:
    """fp8 with a scale for each output row."""
    del root
    card.skip("activation_scale_ub")
    made = _Settings(kind=_Kind(Quantization.FP8_CHANNEL), scale_bits=32)
    _plain(card, made, "modules_to_not_convert")
    return made


def _plain(card: Card, made: _Settings, *keys: str) -> None:
    for key in keys:
        for name in card.words(key, longest=NAMES_MAX):
            _add(card, key, made.plain, name=name, kind=_PLAIN)


def _add(card: Card, key: str, names: Named[_Kind], *, name: str, kind: _Kind) -> None:
    problem = names.add(name, kind)
    if problem:
        card.wrong(key, problem=f"{name[:80]!r}: {problem}", fix="name modules, or use * and simple patterns")


_METHODS = {
    "fp8": _fp8,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
    "awq": _packed,
    "gptq": _packed,
    "fbgemm_fp8": _fbgemm,
}
