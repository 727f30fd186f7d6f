"""Gather: slots are filled by what stages sent; what can't be read is the client's fault."""

import pytest

from accord.run.engines.gather import Gather
from accord.run.payloads import Message, Prompt, StagePart, TextPart, pack_prompt
from accord.run.ports import Chunk
from accord.terms.errors import BadInput
from accord.terms.graph import DOOR, Payload


def give(gather: Gather, payload: Payload, data: bytes, *, source: str = DOOR, index: int = 0) -> None:
    released: list[int] = []
    chunk = Chunk(
        source=source,
        payload=payload,
        index=index,
        data=memoryview(data),
        meta=b"",
        release=lambda: released.append(1),
    )
    gather.take(chunk)
    assert released == [1]


CHAT = pack_prompt(
    Prompt(
        messages=(
            Message(role="system", parts=(TextPart(text="Be brief."),)),
            Message(
                role="user",
                parts=(
                    TextPart(text="I said: "),
                    StagePart(stage="recognizer", index=1),
                    TextPart(text=" and showed: "),
                    StagePart(stage="vision", index=0),
                ),
            ),
        )
    )
)


def test_slots_are_filled_by_stage_and_number_in_any_order() -> None:
    gather = Gather()
    give(gather, Payload.TEXT, "caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode()[:-1], source="recognizer", index=1)
    give(gather, Payload.TEXT, b"not this", source="recognizer", index=0)
    give(gather, Payload.PROMPT, CHAT)
    give(gather, Payload.TEXT, b"a cup", source="vision")
    give(gather, Payload.TEXT, "\N{LATIN SMALL LETTER E WITH ACUTE}!".encode()[1:], source="recognizer", index=1)
    assert gather.messages() == (("system", "Be brief."), ("user", "I said: café! and showed: a cup"))


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (None, "none arrived"),
        (b"", "prompt"),
        (b"\xff{}", "prompt"),
        (b'{"messages": []}', "prompt.messages"),
        (b'{"messages": [{"role": "pirate", "parts": []}]}', "Invalid enum value 'pirate' - at `$.messages[0].role`"),
        (b'{"messages": [], "extra": 1}', "unknown field `extra`"),
        (CHAT, "recognizer 1': this stage sent no such text"),
    ],
)
def test_what_cannot_be_read_is_bad_input(prompt: bytes | None, words: str) -> None:
    gather = Gather()
    if prompt is not None:
        give(gather, Payload.PROMPT, prompt)
    with pytest.raises(BadInput) as caught:
        gather.messages()
    assert words in str(caught.value)
