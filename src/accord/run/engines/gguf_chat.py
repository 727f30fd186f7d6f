"""A model's chat template, kept safe from what clients write.

In: the template and the control tokens of a GGUF; then chats. Out: segments, each plain text or a control token.
Invariant: what a client wrote never becomes a control token, even if it spells one; only the template's own do.
"""

import re
from collections.abc import Iterator, Sequence

from accord.run.engines.ar_model import Turn
from accord.terms.errors import BadInput, BrokenEdge

_GUARD = "\ufdd0"  # a noncharacter: Unicode keeps it out of exchanged text


class ChatTemplate:
    """A jinja2 template in a sandbox. `system` is put first where a chat has no system message."""

    def __init__(self, template: str, *, controls: Sequence[str], bos: str, eos: str, system: str) -> None:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            self._template = environment.from_string(template)
        except TemplateError as error:
            raise BrokenEdge(f"GGUF: tokenizer.chat_template: {error}; fetch the weights again") from error
        self._controls = re.compile("(" + "|".join(re.escape(name) for name in controls) + ")")
        self._names = {"bos_token": bos, "eos_token": eos}
        self._system = system

    def segments(self, turns: Sequence[Turn]) -> Iterator[tuple[str, bool]]:
        """The chat up to where the assistant's answer begins: (text, whether it is a control token)."""
        for index, part in enumerate(self._controls.split(self._render(turns))):
            if part:
                yield part.replace(_GUARD, ""), index % 2 == 1

    def _render(self, turns: Sequence[Turn]) -> str:
        from jinja2 import TemplateError

        if self._system and not any(turn.role == "system" for turn in turns):
            turns = (Turn(role="system", text=self._system), *turns)
        messages = [{"role": turn.role, "content": self._guard(turn.text)} for turn in turns]
        try:
            return self._template.render(messages=messages, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            raise BadInput(
                field="messages",
                value=[turn.role for turn in turns],
                problem=f"the model's chat template refuses them: {error}",
                fix="order the roles as the model wants",
            ) from error

    def _guard(self, text: str) -> str:
        return self._controls.sub(lambda found: found[0][0] + _GUARD + found[0][1:], text.replace(_GUARD, ""))


def byte_piece(token: str) -> bytes:
    """The bytes of a token of a byte-level BPE, which writes each byte as one printable character, as GPT-2 does."""
    return bytes(_BYTE_OF[character] for character in token)


def _bytes_by_character() -> dict[str, int]:
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = sorted(set(range(256)) - set(plain))
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(other)}


_BYTE_OF = _bytes_by_character()
