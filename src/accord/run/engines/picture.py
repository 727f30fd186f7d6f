"""What a picture claims to be.

In: the bytes of one encoded file. Out: its format and size, from the header alone. Invariant: nothing is
decoded, unpacked or copied, and no more than 65,536 parts of the file are looked at.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from accord.terms.errors import BadInput

FIELD: Final = "image_url"
PIXELS_MAX: Final = 40_000_000
"""More than what phones and cameras send (12 to 33 million); four bytes each must fit in memory."""

PARTS_MAX: Final = 65_536
"""Chunks of a PNG, segments of a JPEG before its size."""

_WEBP_SHARE = 4  # Pillow's WebP decoder holds 16 bytes a pixel where the others hold 4, so it may have a quarter


class PictureKind(StrEnum):
    """The formats that are read, by Pillow's names."""

    PNG = "PNG"
    JPEG = "JPEG"
    GIF = "GIF"
    WEBP = "WEBP"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureInfo:
    """What the header says. Pixels as stored, before any turn that EXIF asks for."""

    kind: PictureKind
    width: int
    height: int


def check_picture(head: bytes | memoryview, *, pixels_max: int = PIXELS_MAX, field: str = FIELD) -> PictureInfo:
    """Format and size from the first bytes; BadInput, for `field`, if they can't be had or are too much.

    Give the whole file where it is at hand: the size of a JPEG stands behind its metadata. A WebP may have a
    quarter of `pixels_max`.
    """
    view = memoryview(head)
    try:
        kind = _kind(bytes(view[:16]))
        width, height = _size(kind, view)
        check_size(width, height, most=pixels_limit(kind, pixels_max))
    except Flaw as flaw:
        raise flaw.of(field) from flaw
    except (struct.error, IndexError) as error:
        problem = f"this {kind} file ends inside its header"
        raise BadInput(field=field, value=f"{len(view)} bytes", problem=problem, fix="send the whole file") from error
    return PictureInfo(kind=kind, width=width, height=height)


def pixels_limit(kind: PictureKind, pixels_max: int) -> int:
    """How many pixels a picture of this format may have, so that all take about the same memory."""
    return pixels_max // _WEBP_SHARE if kind is PictureKind.WEBP else pixels_max


def check_size(width: int, height: int, *, most: int) -> None:
    """Flaw if there are no pixels, or more than `most`."""
    size = f"{width}x{height}"
    if width < 1 or height < 1:
        raise Flaw(value=size, problem="the picture has no pixels", fix="send one that has")
    if width * height > most:
        problem = f"{width * height / 1e6:.1f} million pixels are more than the {most / 1e6:g} million that are read"
        raise Flaw(value=size, problem=problem, fix="scale the picture down")


class Flaw(Exception):
    """What is wrong with a picture, before it is known what the client calls it."""

    def __init__(self, *, value: str, problem: str, fix: str) -> None:
        super().__init__(problem)
        self._value, self._problem, self._fix = value, problem, fix

    def of(self, field: str) -> BadInput:
        """The error for the client."""
        return BadInput(field=field, value=self._value, problem=self._problem, fix=self._fix)


def _kind(magic: bytes) -> PictureKind:
    if magic.startswith(b"\x89PNG\r\n\x1a\n"):
        return PictureKind.PNG
    if magic.startswith(b"\xff\xd8\xff"):
        return PictureKind.JPEG
    if magic.startswith((b"GIF87a", b"GIF89a")):
        return PictureKind.GIF
    if magic.startswith(b"RIFF") and magic[8:12] == b"WEBP":
        return PictureKind.WEBP
    shown = f"begins with {magic[:12].hex(' ')}" if magic else "empty"
    problem = "this is no PNG, JPEG, WebP or GIF file"
    raise Flaw(value=shown, problem=problem, fix="send the picture as one of these")


def _size(kind: PictureKind, view: memoryview) -> tuple[int, int]:
    match kind:
        case PictureKind.PNG:
            return _png_size(view)
        case PictureKind.JPEG:
            return _jpeg_size(view)
        case PictureKind.GIF:
            width, height = struct.unpack_from("<HH", view, 6)
            return width, height
        case PictureKind.WEBP:
            return _webp_size(view)


def _png_size(view: memoryview) -> tuple[int, int]:
    name, width, height = struct.unpack_from(">4sII", view, 12)
    if name != b"IHDR":
        raise _damaged("PNG", "its first chunk is no header")
    return width, height


def _jpeg_size(view: memoryview) -> tuple[int, int]:
    """The first start-of-frame segment (ITU-T T.81, annex B)."""
    at = 2
    for _ in range(PARTS_MAX):
        mark, code, length = struct.unpack_from(">BBH", view, at)
        if mark != 0xFF or code in (0xD9, 0xDA):
            raise _damaged("JPEG", "its segments don't lead to a size")
        if code == 0xFF:
            at += 1  # padding before a marker
        elif 0xC0 <= code <= 0xCF and code not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", view, at + 5)
            return width, height
        else:
            at += 2 + max(2, length)
    raise _damaged("JPEG", f"more than {PARTS_MAX} segments stand before its size")


def _webp_size(view: memoryview) -> tuple[int, int]:
    """Lossy, lossless or extended header (RFC 9649, sections 2.5 to 2.7; RFC 6386, section 9.1)."""
    name = bytes(view[12:16])
    if name == b"VP8 ":
        width, height = struct.unpack_from("<HH", view, 26)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L":
        (bits,) = struct.unpack_from("<I", view, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if name == b"VP8X":
        low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", view, 24)
        return 1 + low_width + (high_width << 16), 1 + low_height + (high_height << 16)
    raise _damaged("WebP", f"its first chunk is {name!r}")


def _damaged(kind: str, problem: str) -> Flaw:
    return Flaw(value=f"a {kind} file", problem=problem, fix="save it anew and send the whole file")
