"""Reads a model card key by key, and says precisely what is wrong with it.

In: the parsed JSON of a `config.json`. Out: checked figures. Invariant: each key is either read, known not to
matter, or listed by `unread`; an error names the key's dotted path, its value and the fix.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

from accord.terms.errors import BadInput

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

LAYERS_MAX = 4096
SIZE_MAX = 1 << 24  # no public model has a side, a vocabulary or a context beyond 16 million
PARAMETERS_MAX = 10**14

# How a model is loaded, trained, sampled or rotated: none of it changes shapes, bytes or FLOPs.
HARMLESS = frozenset(
    (
        "_attn_implementation", "_commit_hash", "_name_or_path", "activation_dropout", "add_cross_attention",
        "architectures", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "auto_map",
        "aux_loss_alpha", "bad_words_ids", "begin_suppress_tokens",
        "bos_token_id", "chunk_size_feed_forward", "classifier_dropout", "decoder_start_token_id", "dropout", "dtype",
        "embd_pdrop", "eos_token_id", "ep_size", "epsilon", "finetuning_task", "gradient_checkpointing",
        "hidden_dropout", "hidden_dropout_prob", "id2label", "init_std", "initializer_factor", "initializer_range",
        "is_decoder", "is_encoder_decoder", "label2id", "layer_norm_eps", "layer_norm_epsilon", "max_length",
        "mrope_section", "norm_eps", "output_attentions", "output_hidden_states", "output_router_logits",
        "pad_token_id", "pretraining_tp", "problem_type", "resid_pdrop", "return_dict", "rms_norm_eps",
        "rope_interleave", "rope_local_base_freq", "rope_parameters", "rope_scaling", "rope_theta",
        "router_aux_loss_coef", "router_jitter_noise", "scale_embedding", "sep_token_id", "seq_aux",
        "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "min_length", "no_repeat_ngram_size",
        "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "prefix", "remove_invalid_values",
        "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "temperature", "tf_legacy_loss", "top_k",
        "top_p", "typical_p",
        "task_specific_params", "tie_encoder_decoder", "tokenizer_class", "torch_dtype", "torchscript",
        "transformers.js_config", "transformers_version", "unk_token_id", "use_bfloat16", "use_cache", "use_mrope",
    )
)  # fmt: skip


class Card:
    """One mapping of a card. Reading a key marks it; `sub` reads a nested mapping with the same bookkeeping."""

    def __init__(self, values: Mapping[str, Json], *, path: str = "") -> None:
        self._values = values
        self._path = path
        self._read: set[str] = set()
        self._subs: list[Card] = []

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    @property
    def nested(self) -> bool:
        """Whether this mapping stands inside another."""
        return bool(self._path)

    def names(self, key: str) -> bool:
        """Whether the key is there at all, be it null: some defaults stand only where a key is absent."""
        return key in self._values

    def field(self, key: str) -> str:
        """The dotted path of one key."""
        return f"{self._path}.{key}" if self._path else key

    def skip(self, *keys: str) -> None:
        """Marks keys as known not to matter to shapes, bytes or FLOPs here."""
        self._read.update(keys)

    def raw(self, key: str) -> Json:
        """A value as it stands; None if it is absent or null."""
        self._read.add(key)
        return self._values.get(key)

    def size(self, key: str, default: int | None = None, *, least: int = 1, most: int = SIZE_MAX) -> int:
        """A whole number from `least` to `most`; BadInput otherwise, or if it is absent without a default."""
        value = self.raw(key)
        if value is None:
            if default is None:
                self._absent(key, fix=f"add `{key}`, a whole number from {least}")
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(key, problem="not a whole number", fix=f"write a whole number from {least} to {most}")
        if not least <= value <= most:
            self.wrong(key, problem="out of range", fix=f"write a whole number from {least} to {most}")
        return value

    def maybe(self, key: str, *, least: int = 1, most: int = SIZE_MAX) -> int | None:
        """A whole number, or None where the key is absent or null."""
        if key in self:
            return self.size(key, least=least, most=most)
        self.skip(key)
        return None

    def layers(self, key: str = "num_hidden_layers", default: int | None = None) -> int:
        """How many layers there are."""
        return self.size(key, default, most=LAYERS_MAX)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.wrong(key, problem="not a number", fix="write a finite number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, problem="not true or false", fix="write true or false")
        return value

    def word(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self.raw(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            self.wrong(key, problem="not a text", fix="write a text")
        return value

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of `known`; BadInput with the nearest one otherwise."""
        value = self.word(key, default)
        if value not in known:
            near = difflib.get_close_matches(value, known, n=1)
            fix = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            self.wrong(key, problem="unknown", fix=fix)
        return value

    def sizes(
        self,
        key: str,
        *,
        least: int = 0,
        most: int = SIZE_MAX,
        count: int | None = None,
        default: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        """A list of whole numbers, `count` of them where it is given; `default` if the key is absent."""
        if key not in self and default and count in (None, len(default)):
            self.skip(key)
            return default
        if key not in self and default:
            self._absent(key, fix=f"add `{key}`, a list of {count} whole numbers")
        items = self._items(key, count=count)
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or not least <= item <= most:
                self.wrong(key, problem=f"holds {item!r}", fix=f"write whole numbers from {least} to {most}")
        return tuple(item for item in items if isinstance(item, int))

    def words(
        self, key: str, *, known: Sequence[str] | None = None, count: int | None = None, longest: int = LAYERS_MAX
    ) -> tuple[str, ...]:
        """A list of texts, each one of `known` where that is given; () if the key is absent."""
        items = self._items(key, count=count, longest=longest)
        for item in items:
            if not isinstance(item, str) or (known is not None and item not in known):
                fix = f"known here: {', '.join(known)}" if known else "write texts"
                self.wrong(key, problem=f"holds {item!r}", fix=fix)
        return tuple(item for item in items if isinstance(item, str))

    def sub(self, key: str) -> "Card":
        """The nested mapping; BadInput if it is absent or something else."""
        value = self.raw(key)
        if value is None:
            self._absent(key, fix=f"add the mapping `{key}`")
        if not isinstance(value, Mapping):
            self.wrong(key, problem="not a mapping", fix="write `{...}` with its keys")
        for made in self._subs:
            if made._values is value:
                return made
        below = Card(value, path=self.field(key))
        self._subs.append(below)
        return below

    def keys(self) -> tuple[str, ...]:
        """All keys, for mappings whose keys are names."""
        return tuple(self._values)

    def subs(self, key: str, *, count: int | None = None) -> "tuple[Card, ...]":
        """A list of nested mappings, `count` of them where it is given; () if the key is absent."""
        below = []
        for index, item in enumerate(self._items(key, count=count)):
            if not isinstance(item, Mapping):
                self.wrong(key, problem=f"item {index} is not a mapping", fix="write `{...}` for each")
            below.append(Card(item, path=f"{self.field(key)}[{index}]"))
        self._subs.extend(below)
        return tuple(below)

    def given(self, **values: Json) -> "Card":
        """The same mapping with some values put in; what is read there counts as read here."""
        view = Card({**self._values, **values}, path=self._path)
        view._read, view._subs = self._read, self._subs
        return view

    def divides(self, key: str, whole: int, part: int, *, by: str) -> None:
        """BadInput unless `part` (of key `by`) divides `whole` (of `key`)."""
        if whole % part:
            self.wrong(key, problem=f"not a multiple of {by} = {part}", fix=f"write a multiple of {part}")

    def wrong(self, key: str, *, problem: str, fix: str) -> NoReturn:
        """Raises BadInput for one key."""
        value = self._values.get(key, "absent")
        shown: object = value
        if isinstance(value, list | dict) and len(value) > 8:
            shown = f"a {'list' if isinstance(value, list) else 'mapping'} of {len(value)}"
        raise BadInput(field=self.field(key), value=shown, problem=problem, fix=fix)

    def unread(self) -> tuple[str, ...]:
        """Dotted paths of keys that nobody read, that aren't known to be harmless, and that hold something."""
        left = [
            self.field(key)
            for key, value in self._values.items()
            if key not in self._read and key not in HARMLESS and value not in (None, False, [], {}, "")
        ]
        return (*left, *(path for below in self._subs for path in below.unread()))

    def _absent(self, key: str, *, fix: str) -> NoReturn:
        left = [name for name in self._values if name not in self._read]
        near = difflib.get_close_matches(key, left[:1000], n=1, cutoff=0.8)
        hint = f"; did you mean {key} where it says {near[0]}?" if near else ""
        raise BadInput(field=self.field(key), value="absent", problem="required", fix=fix + hint)

    def _items(self, key: str, *, count: int | None, longest: int = LAYERS_MAX) -> Sequence[Json]:
        value = self.raw(key)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.wrong(key, problem="not a list", fix="write a list")
        if len(value) > longest:
            self.wrong(key, problem=f"{len(value)} items", fix=f"write {longest} at most")
        if count is not None and len(value) != count:
            self.wrong(key, problem=f"{len(value)} items where {count} are needed", fix=f"write {count} items")
        return value
