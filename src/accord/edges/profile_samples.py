"""What each kind of stage is fed to measure it, and how its runs become costs.

In: the payload that a stage takes. Out: `Trial`s, and a `StageSpeed` from their `Result`s.
Invariant: inputs are real ones (a spoken question, a drawn picture, words), and each cost is that of the
fastest run, with the spread of the runs as its uncertainty.
"""

import io
import statistics
from collections.abc import Callable, Mapping
from importlib.resources import files

from accord.edges.profile_wire import NUMBER, Piece, Result, Run, Trial
from accord.run.payloads import PCM_RATE_HZ, Message, Prompt, TextPart, pack_prompt
from accord.terms.errors import BrokenEdge
from accord.terms.estimate import Estimate, Source
from accord.terms.graph import DOOR, Payload
from accord.terms.request import Params
from accord.terms.speed import Cost, Quantity
from accord.terms.units import milliseconds

Costs = tuple[tuple[Cost, ...], Estimate]

CROWD = 8
_SAY = "The capital of France is Paris, and it is famous for its museums, its food and its long history."
_ASK = (
    f"Question {NUMBER.decode()}. Explain in plain words, with three examples, how a river shapes the land it "
    "flows through over many thousands of years. Begin at its source in the mountains, follow it across the "
    "plains, and end at the sea. Say what the water carries along, where it leaves that behind, and why towns "
    "were so often built on its banks. Write at least ten sentences, and don't use lists."
)


def trials(payload: Payload, spectrum: tuple[Piece, ...]) -> tuple[Trial, ...]:
    """What to try with a stage that takes this payload; `spectrum` is what the acoustic stage gave."""
    match payload:
        case Payload.AUDIO:
            return (Trial(name="hear", pieces=(_piece(payload, question()),)),)
        case Payload.IMAGE:
            return (Trial(name="see", pieces=(_piece(payload, _picture()),)),)
        case Payload.PROMPT:
            pieces = (_piece(payload, pack_prompt(_prompt())),)
            return (
                Trial(name="decode", pieces=pieces, params=Params(max_tokens=32)),
                Trial(name="crowd", pieces=pieces, params=Params(max_tokens=16), copies=CROWD),
            )
        case Payload.TEXT:
            return (Trial(name="say", pieces=(_piece(payload, _SAY.encode()),), keep_output=True),)
        case Payload.SPECTRUM:
            return (Trial(name="sound", pieces=spectrum),)
        case _:
            raise BrokenEdge(f"profile: no stage that takes {payload} is known; add its trial to this table")


def audio_s(results: Mapping[str, Result]) -> float:
    """How many seconds of sound a stage gave, from its bytes."""
    return sum(result.output_bytes for result in results.values()) / 2 / PCM_RATE_HZ


def costs(payload: Payload, results: Mapping[str, Result], *, spoken_s: float) -> Costs:
    """The costs of a stage that takes this payload, and the figure for people.

    `spoken_s` is how long the sound is that came of the trial's words.
    """
    match payload:
        case Payload.AUDIO:
            each, spread = _fastest(results["hear"], lambda run: run.total_s)
            unit_s = each / max(results["hear"].usage.audio_s, 0.1)
            work = _measured(milliseconds(unit_s * 10), "ms / 10 s audio", spread)
            return (Cost(quantity=Quantity.AUDIO_IN_S, alone_s=unit_s, shared_s=unit_s),), work
        case Payload.IMAGE:
            each, spread = _fastest(results["see"], lambda run: run.total_s)
            work = _measured(milliseconds(each), "ms / picture", spread)
            return (Cost(quantity=Quantity.PICTURE, alone_s=each, shared_s=each),), work
        case Payload.PROMPT:
            return _ar_costs(results["decode"], results["crowd"])
        case _:
            (result,) = results.values()
            each, spread = _fastest(result, lambda run: run.total_s)
            unit_s = each / max(spoken_s, 0.1)
            work = _measured(1 / unit_s, "x real time", spread)
            return (Cost(quantity=Quantity.AUDIO_OUT_S, alone_s=unit_s, shared_s=unit_s),), work


def first_use_s(results: Mapping[str, Result]) -> float:
    """How much longer the engine's very first run took than the usual one; buffers and threads are made in it."""
    runs = next(iter(results.values())).runs
    later = [run.total_s for run in runs[1:]]
    return max(0.0, runs[0].total_s - statistics.median(later)) if later else 0.0


def question() -> bytes:
    """The spoken question that comes with Accord, a FLAC file."""
    return files("accord").joinpath("assets", "question.flac").read_bytes()


def _ar_costs(decode: Result, crowd: Result) -> Costs:
    if min(run.written for run in (*decode.runs, *crowd.runs)) < 2 * CROWD:
        raise BrokenEdge(
            "profile: the model hardly wrote a word where 32 tokens were asked for; its weights look wrong"
        )
    first, _ = _fastest(decode, lambda run: run.first_s)
    token_s, spread = _fastest(decode, lambda run: (run.total_s - run.first_s) / (run.written - 1))
    prompt_s = first / decode.usage.prompt_tokens
    together, _ = _fastest(crowd, lambda run: (run.total_s - CROWD * first) / (run.written - CROWD))
    # A busy machine can make the sum smaller than its parts; a batch was never seen to give more than this.
    shared_s = min(token_s, max(together, token_s / (2 * CROWD)))
    unit = f"ms / token, reads {1 / prompt_s:.0f} tokens/s"
    return (
        Cost(quantity=Quantity.PROMPT_TOKEN, alone_s=prompt_s, shared_s=prompt_s),
        Cost(quantity=Quantity.OUTPUT_TOKEN, alone_s=token_s, shared_s=shared_s),
    ), _measured(milliseconds(token_s), unit, spread)


def _fastest(result: Result, figure: Callable[[Run], float]) -> tuple[float, float]:
    """The least of a figure over the runs, and how far above it the middle lies, as a share."""
    values = [figure(run) for run in result.runs]
    least = max(min(values), 1e-9)
    return least, statistics.median(values) / least - 1


def _measured(value: float, unit: str, spread: float) -> Estimate:
    return Estimate(value=value, unit=unit, source=Source.MEASURED, uncertainty=round(spread, 3))


def _piece(payload: Payload, data: bytes) -> Piece:
    return Piece(source=DOOR, payload=payload, data=data)


def _prompt() -> Prompt:
    return Prompt(messages=(Message(role="user", parts=(TextPart(text=_ASK),)),))


def _picture() -> bytes:
    """A street sign: a few words on a plain ground, 640 x 480."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (640, 480), (236, 240, 241))
    draw = ImageDraw.Draw(image)
    draw.rectangle((60, 120, 580, 300), fill=(25, 84, 166))
    draw.text((90, 150), "CITY CENTRE", fill="white", font=ImageFont.load_default(48))
    draw.text((90, 220), "2 km", fill="white", font=ImageFont.load_default(40))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
