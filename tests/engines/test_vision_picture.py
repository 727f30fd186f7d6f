"""Pictures from strangers: what is read right, what is refused, and within how much memory."""

import functools
import io
import random
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from accord.run.engines.picture import PIXELS_MAX, PictureKind, check_picture
from accord.run.engines.picture_pixels import open_picture
from accord.terms.errors import BadInput

PNG = b"\x89PNG\r\n\x1a\n"
MIB = 1 << 20


def ramp(width: int = 120, height: int = 80) -> Image.Image:
    """Smooth in both directions, so that lossy formats change it little."""
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack((x * 2, y * 3, 255 - x - y), -1).astype(np.uint8))


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *extras: bytes, pixels: bytes | None = None) -> bytes:
    """An 8-bit grey PNG; `extras` are chunks before the pixels. A claimed size needs no pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    data = zlib.compress(bytes((width + 1) * height) if pixels is None else pixels)
    return PNG + header + b"".join(extras) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def refused(data: bytes, **options: int) -> str:
    with pytest.raises(BadInput) as caught:
        open_picture(data, side_max=1920, **options)
    text = str(caught.value)
    assert text.startswith("image_url: ")
    assert "; " in text
    return text


KINDS = {
    "png": (lambda: encoded(ramp(), "PNG"), PictureKind.PNG, 0),
    "jpeg": (lambda: encoded(ramp(), "JPEG", quality=95), PictureKind.JPEG, 3),
    "progressive": (lambda: encoded(ramp(), "JPEG", quality=95, progressive=True), PictureKind.JPEG, 3),
    "jpeg cmyk": (lambda: encoded(ramp().convert("CMYK"), "JPEG", quality=95), PictureKind.JPEG, 3),
    "webp lossy": (lambda: encoded(ramp(), "WEBP", quality=95), PictureKind.WEBP, 3),
    "webp lossless": (lambda: encoded(ramp(), "WEBP", lossless=True), PictureKind.WEBP, 0),
    "webp extended": (lambda: encoded(ramp(), "WEBP", lossless=True, exif=Image.Exif()), PictureKind.WEBP, 0),
    "png palette": (lambda: encoded(ramp().quantize(256), "PNG"), PictureKind.PNG, 6),
    "gif": (lambda: encoded(ramp().quantize(256), "GIF"), PictureKind.GIF, 6),
    "gif animated": (
        lambda: encoded(ramp().quantize(256), "GIF", save_all=True, append_images=[Image.new("P", (120, 80))] * 3),
        PictureKind.GIF,
        6,
    ),
    "png animated": (
        lambda: encoded(ramp(), "PNG", save_all=True, append_images=[Image.new("RGB", (120, 80))]),
        PictureKind.PNG,
        0,
    ),
    "png alpha": (lambda: encoded(ramp().convert("RGBA"), "PNG"), PictureKind.PNG, 0),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_format_gives_its_pixels(name: str) -> None:
    make, kind, off = KINDS[name]
    data = make()
    info = check_picture(memoryview(data))
    assert (info.kind, info.width, info.height) == (kind, 120, 80)
    pixels = open_picture(data, side_max=1920)
    assert pixels.shape == (80, 120, 3)
    assert np.abs(pixels.astype(int) - np.asarray(ramp(), int)).mean() <= off


def test_sixteen_bits_of_grey_are_scaled_not_clipped() -> None:
    grey = np.arange(0, 256, dtype=np.uint16).reshape(16, 16)
    pixels = open_picture(encoded(Image.fromarray(grey * 257), "PNG"), side_max=1920)
    assert np.array_equal(pixels, np.repeat(grey[:, :, None], 3, axis=2))


@pytest.mark.parametrize(("ink", "backdrop"), [(0, 255), (255, 0)])
def test_transparent_pictures_stand_out_from_their_backdrop(ink: int, backdrop: int) -> None:
    pixels = np.zeros((20, 20, 4), np.uint8)
    pixels[5:10, 5:15] = (ink, ink, ink, 255)
    opened = open_picture(encoded(Image.fromarray(pixels), "PNG"), side_max=1920)
    assert np.all(opened[5:10, 5:15] == ink)
    assert np.all(opened[:5] == backdrop)


# What a viewer must show for each value of Orientation (EXIF 2.32, section 4.6.4 A), in terms of the stored rows.
UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a[::-1].swapaxes(0, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a[:, ::-1].swapaxes(0, 1),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_pictures_are_turned_upright(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    opened = open_picture(
        encoded(ramp(), kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {})), side_max=1920
    )
    wanted = UPRIGHT[orientation](np.asarray(ramp(), int))
    assert opened.shape == wanted.shape
    assert np.abs(opened - wanted).mean() < 3


@pytest.mark.parametrize("size", [(4000, 300), (300, 4000), (2500, 2500), (1921, 5), (1, 5000)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_large_pictures_come_back_small_and_whole(size: tuple[int, int], kind: str) -> None:
    picture = Image.linear_gradient("L").resize(size).convert("RGB")
    pixels = open_picture(encoded(picture, kind), side_max=960)
    assert max(pixels.shape[:2]) <= 960
    assert max(pixels.shape[:2]) >= 940
    assert min(pixels.shape[:2]) == pytest.approx(min(size) * 960 / max(size), abs=1)
    if pixels.shape[0] > 60:
        assert pixels[0].mean() < 8
        assert pixels[-1].mean() > 247


def test_what_is_no_picture_is_refused() -> None:
    assert "empty" in refused(b"")
    for data in (b"hello", b"BM" + bytes(60), b"II*\0" + bytes(60), b"<svg xmlns=''/>", b"RIFF\0\0\0\0WAVEfmt "):
        assert "no PNG, JPEG, WebP or GIF" in refused(data)


def test_sizes_are_judged_before_pixels() -> None:
    assert "200.0 million pixels are more than the 40 million" in refused(png(20_000, 10_000, pixels=b""))
    assert "no pixels" in refused(png(0, 5, pixels=b""))
    assert "no pixels" in refused(b"GIF89a" + bytes(20))
    assert "more than the 0.005 million" in refused(encoded(ramp(), "PNG"), pixels_max=5000)
    wide = b"\xff\xd8\xff\xc0" + struct.pack(">HBHHB", 17, 8, 65_000, 65_000, 3) + bytes(20)
    assert "4225.0 million" in refused(wide)
    webp = b"RIFF\0\0\0\0WEBPVP8X" + struct.pack("<IIHBHB", 10, 0, 0xFFFF, 0, 0xFFFF, 0)
    assert "10 million" in refused(webp)
    with pytest.raises(BadInput, match=r"messages\[0\]"):
        check_picture(png(20_000, 10_000, pixels=b""), field="messages[0].content[1].image_url.url")
    assert check_picture(png(8000, 5000, pixels=b"")).width * 5000 == PIXELS_MAX


@pytest.mark.parametrize("name", KINDS)
def test_files_that_end_early_are_refused(name: str) -> None:
    data = KINDS[name][0]()
    for share in (0.02, 0.3, 0.6):
        refused(data[: int(len(data) * share)])


def test_headers_that_disagree_are_refused() -> None:
    second = chunk(b"IHDR", struct.pack(">IIBBBBB", 12_000, 8_000, 8, 0, 0, 0, 0))
    assert "image_url" in refused(png(8, 8, second))
    assert "palette is missing" in refused(encoded(ramp().quantize(256), "PNG").replace(b"PLTE", b"pLTE"))
    for side, words in ((60_000, "headers disagree"), (8_000, "64.0 million pixels")):
        screen = b"GIF89a" + struct.pack("<HHBBB", 8, 8, 0x80, 0, 0) + bytes(6)
        frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, side, side, 0) + b"\x02\x02\x44\x01\x00"
        assert words in refused(screen + frame + b"\x3b")


def test_work_without_end_is_refused() -> None:
    assert "65536 chunks" in refused(png(8, 8, chunk(b"tEXt", b"a\0b") * 100_000))
    whole = encoded(ramp(), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    assert "passes over one picture" in refused(whole[:-2] + whole[last:-2] * 200 + whole[-2:])
    assert "65536 segments" in refused(b"\xff\xd8" + b"\xff\xe1\x00\x02" * 70_000)


PEAK = """
import sys
from accord.run.engines.picture_pixels import open_picture
from accord.terms.errors import BadInput
from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin, GifImagePlugin
data = open(sys.argv[1], "rb").read()
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
try:
    print("x".join(map(str, open_picture(data, side_max=1920).shape[:2])), end=" ")
except BadInput as error:
    print("refused", end=" ")
print(peak() - before)
"""


def peak_of(path: Path, data: bytes) -> tuple[str, float]:
    """What became of a picture in a process of its own, and the most memory above its start, in MiB."""
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    outcome, peak_kib = done.stdout.split()
    return outcome, int(peak_kib) / 1024


def gif_of(frames: int) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 8, 8, 0) + b"\x02\x02\x84\x51\x00"
    first = encoded(Image.new("P", (8, 8)), "GIF").removesuffix(b"\x3b")
    return first + frame * frames + b"\x3b"


@functools.cache
def zeros() -> bytes:
    """What unpacks to 300 MiB of zeros."""
    packer = zlib.compressobj()
    return b"".join(packer.compress(bytes(MIB)) for _ in range(300)) + packer.flush()


def overfull() -> bytes:
    """A picture of 8 x 8 whose pixels unpack to 300 MiB."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    return PNG + header + chunk(b"IDAT", zeros()) + chunk(b"IEND", b"")


BOMBS = {
    "200 million pixels": (lambda: png(20_000, 10_000, pixels=bytes(1000)), "refused", 8),
    "zTXt of 300 MiB": (lambda: png(8, 8, chunk(b"zTXt", b"a\0\0" + zeros())), "8x8", 16),
    "iTXt, 90 of 300 MiB": (lambda: png(8, 8, chunk(b"iTXt", b"a\0\1\0\0\0" + zeros()) * 90), "8x8", 32 + 90 * 0.3),
    "iCCP of 300 MiB": (lambda: png(8, 8, chunk(b"iCCP", b"a\0\0" + zeros())), "8x8", 16),
    "more pixels than claimed": (overfull, "8x8", 16),
    "a million frames": (lambda: gif_of(1_000_000), "8x8", 40),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stay_small(tmp_path: Path, name: str) -> None:
    make, wanted, most_mib = BOMBS[name]
    outcome, peak_mib = peak_of(tmp_path / "bomb", make())
    assert outcome == wanted
    assert peak_mib < most_mib


@pytest.mark.parametrize(("kind", "mode"), [("PNG", "RGB"), ("JPEG", "RGB"), ("PNG", "P")])
def test_memory_is_bounded_by_the_pixels(tmp_path: Path, kind: str, mode: str) -> None:
    picture = Image.new(mode, (5000, 4000))
    outcome, peak_mib = peak_of(tmp_path / "large", encoded(picture, kind))
    assert outcome == "1536x1920"
    assert peak_mib < 4 * 20 + 64


SEEDS = tuple(make() for make, _, _ in KINDS.values())


@given(st.integers(0, 2**32))
def test_damaged_files_are_opened_or_refused(seed: int) -> None:
    """Bytes changed, cut, repeated and lost at random: BadInput is the only error that leaves."""
    dice = random.Random(seed)
    with warnings.catch_warnings(action="error"):
        for whole in SEEDS:
            data = bytearray(whole)
            for _ in range(dice.choice((1, 2, 5))):
                at = dice.randrange(min(len(data), dice.choice((40, 300, len(data)))))
                match dice.randrange(4):
                    case 0 | 1:
                        data[at] = dice.choice((0, 0x7F, 0x80, 0xFF, dice.randrange(256)))
                    case 2:
                        del data[at : at + dice.choice((1, 4, 30))]
                    case _:
                        data[at:at] = dice.randbytes(dice.choice((1, 4, 30)))
                data = data or bytearray(1)
            try:
                pixels = open_picture(bytes(data), side_max=64)
            except BadInput:
                continue
            assert max(pixels.shape[:2]) <= 64
