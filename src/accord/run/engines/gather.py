"""A prompt whose slots are filled by what other stages heard and saw.

In: PROMPT and TEXT chunks of one job, in any order. Out: its messages as (role, text).
Invariant: every chunk is released as soon as it was read.
"""

import msgspec

from accord.run.payloads import Prompt, StagePart, TextPart, unpack_prompt
from accord.run.ports import Chunk
from accord.terms.errors import BadInput
from accord.terms.graph import Payload


class Gather:
    """Collects one job's input."""

    def __init__(self) -> None:
        self._prompt: bytes | None = None
        self._heard: dict[tuple[str, int], bytearray] = {}

    def take(self, chunk: Chunk) -> None:
        """Reads one chunk; several TEXT chunks of one (stage, index) are joined in their order."""
        if chunk.payload is Payload.PROMPT:
            self._prompt = bytes(chunk.data)
        else:
            self._heard.setdefault((chunk.source, chunk.index), bytearray()).extend(chunk.data)
        chunk.release()

    def messages(self) -> tuple[tuple[str, str], ...]:
        """(role, text) of each turn; BadInput for a missing or malformed prompt, or a slot that nothing fills."""
        prompt = self._parse()
        return tuple((message.role, "".join(self._text(part) for part in message.parts)) for message in prompt.messages)

    def _parse(self) -> Prompt:
        if self._prompt is None:
            raise BadInput(field="prompt", value="", problem="none arrived", fix="send one PROMPT chunk")
        try:
            prompt = unpack_prompt(self._prompt)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            shown = self._prompt[:80].decode(errors="replace")
            raise BadInput(field="prompt", value=shown, problem=str(error), fix="send a chat as JSON") from error
        if not prompt.messages:
            raise BadInput(field="prompt.messages", value="[]", problem="empty", fix="send at least one message")
        return prompt

    def _text(self, part: TextPart | StagePart) -> str:
        match part:
            case TextPart():
                return part.text
            case StagePart():
                heard = self._heard.get((part.stage, part.index))
                if heard is None:
                    raise BadInput(
                        field="prompt.messages.parts",
                        value=f"{part.stage} {part.index}",
                        problem="this stage sent no such text",
                        fix="send the audio or picture that the slot refers to",
                    )
                return heard.decode(errors="replace")
