"""Text and token ids by the tokenizer and the chat template inside a GGUF.

In: a GGUF's metadata, once; then chats and token ids. Out: token ids and bytes.
Invariant: the ids are those that llama.cpp gives for the same rendered chat.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from accord.run.engines.ar_model import Turn
from accord.run.engines.gguf_chat import ChatTemplate, byte_piece
from accord.terms.errors import BrokenEdge

if TYPE_CHECKING:
    from gguf import GGUFReader

TOKENIZER = "tokenizer.json"
_CONTROL, _USER_DEFINED = 3, 4  # llama.cpp's token types


class TextCard(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the text side beside the tokenizer itself."""

    template: str
    ends: tuple[int, ...]
    controls: tuple[str, ...]
    bos: str
    eos: str


def write_tokenizer(reader: "GGUFReader", folder: Path) -> TextCard:
    """Writes tokenizer.json for the `tokenizers` package; BrokenEdge for kinds that aren't known."""
    tokens = [str(token) for token in _read(reader, "tokenizer.ggml.tokens")]
    kinds = [int(str(kind)) for kind in _read(reader, "tokenizer.ggml.token_type")]
    merges = [str(merge).split(" ", 1) for merge in _read(reader, "tokenizer.ggml.merges")]
    model, rule = (str(_one(reader, f"tokenizer.ggml.{key}")) for key in ("model", "pre"))
    if model != "gpt2" or rule not in _RULES:
        raise BrokenEdge(f"GGUF: tokenizer {model} with rule {rule} is not known; use engine llamacpp")
    controls = [token for token, kind in zip(tokens, kinds, strict=True) if kind in (_CONTROL, _USER_DEFINED)]
    document = {
        "version": "1.0",
        "added_tokens": [_added(tokens.index(token), token) for token in controls],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _RULES[rule]},
        "post_processor": None,
        "decoder": _BYTES,
        "model": {"type": "BPE", "vocab": {token: index for index, token in enumerate(tokens)}, "merges": merges},
    }
    (folder / TOKENIZER).write_bytes(msgspec.json.encode(document))
    bos, eos = (int(str(_one(reader, f"tokenizer.ggml.{key}_token_id"))) for key in ("bos", "eos"))
    ends = {eos, *(index for index, token in enumerate(tokens) if token in _ENDS and token in controls)}
    template = str(_one(reader, "tokenizer.chat_template"))
    return TextCard(
        template=template, ends=tuple(sorted(ends)), controls=tuple(controls), bos=tokens[bos], eos=tokens[eos]
    )


class GgufText:
    """A `TextCodec` over a written tokenizer."""

    def __init__(self, folder: Path, card: TextCard, *, system: str = "") -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.encode_special_tokens = True
        self._chat = ChatTemplate(card.template, controls=card.controls, bos=card.bos, eos=card.eos, system=system)
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self._ids = {name: vocabulary[name] for name in card.controls}
        self._ends = frozenset(card.ends)
        self._pieces = [b""] * len(vocabulary)
        for token, index in vocabulary.items():
            self._pieces[index] = b"" if token in self._ids else byte_piece(token)
        self.piece_bytes_max = max(len(piece) for piece in self._pieces)

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """The chat through its template, control tokens only where the template wrote them."""
        ids: list[int] = []
        for part, control in self._chat.segments(turns):
            if control:
                ids.append(self._ids[part])
            else:
                ids.extend(self._tokenizer.encode(part, add_special_tokens=False).ids)
        return ids

    def piece(self, token: int) -> bytes | None:
        """Control tokens that don't end the answer are empty."""
        return None if token in self._ends else self._pieces[token]


_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
# llama.cpp's names of pre-tokenizers (llama-vocab.cpp) in the words of `tokenizers`.
_RULES = {"gpt-2": [_BYTES], "smollm": [_DIGITS, _BYTES]}
# Tokens that end a turn whatever the metadata says, after llama.cpp's list.
_ENDS = frozenset({"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>"})


def _added(index: int, token: str) -> dict[str, object]:
    settings = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": token, "special": True, **settings}


def _read(reader: "GGUFReader", key: str) -> Sequence[object]:
    found = _one(reader, key)
    if not isinstance(found, list):
        raise BrokenEdge(f"GGUF: {key} is not a list; fetch the weights again")
    return found


def _one(reader: "GGUFReader", key: str) -> object:
    field = reader.fields.get(key)
    if field is None:
        raise BrokenEdge(f"GGUF: {key} is missing; fetch the weights again")
    contents: object = field.contents()
    return contents
