"""The pixels of a picture from a stranger.

In: the bytes of one encoded file. Out: RGB, upright, no larger than asked for. Invariant: the claimed size is
checked before anything is decoded, and Pillow is shown nothing that unpacks to more than that size. Whatever is
wrong with the picture is a BadInput that names `image_url`.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accord.run.engines.picture import (
    FIELD,
    PARTS_MAX,
    PIXELS_MAX,
    Flaw,
    PictureKind,
    check_picture,
    check_size,
    pixels_limit,
)
from accord.terms.errors import BadInput

if TYPE_CHECKING:
    from PIL.Image import Image

_SCANS_MAX = 100  # of a progressive JPEG; each is a pass over all pixels, and encoders write about ten
_EXIF_BYTES_MAX = 65_536
_BAND_PIXELS = 1 << 20  # how much is turned into RGB at once
_ORIENTATION = 0x0112

_PNG_SIGNATURE_BYTES = 8
_PNG_KEPT = frozenset((b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"))

Pixels = npt.NDArray[np.uint8]


def open_picture(data: bytes, *, side_max: int, pixels_max: int = PIXELS_MAX) -> Pixels:
    """RGB (height, width, 3), shrunk so that neither side is over `side_max`, upright as EXIF says.

    The first frame of animations. Transparent pictures are laid on white, or on black if they are light
    themselves. Peak memory is about four bytes for each of `pixels_max`, the file once more, and the result.
    """
    info = check_picture(data, pixels_max=pixels_max)
    try:
        lean = _without_extras(info.kind, data)
        return _decode(lean, info.kind, side_max=side_max, pixels_max=pixels_max)
    except Flaw as flaw:
        raise flaw.of(FIELD) from flaw
    except _PILLOW_ERRORS as error:
        size = f"{info.width}x{info.height} {info.kind}"
        problem = f"it is damaged or cut off: {error}"
        raise BadInput(field=FIELD, value=size, problem=problem, fix="save it anew and send the whole file") from error


# What Pillow's decoders raise on damaged files, besides UnidentifiedImageError, which is an OSError.
_PILLOW_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)


def _without_extras(kind: PictureKind, data: bytes) -> bytes:
    """The file without what could unpack to more than its pixels, or be passed over them without end."""
    match kind:
        case PictureKind.PNG:
            return data[:_PNG_SIGNATURE_BYTES] + b"".join(_png_chunks(data))
        case PictureKind.JPEG:
            scans = data.count(b"\xff\xda")
            if scans > _SCANS_MAX:
                problem = f"more than {_SCANS_MAX} passes over one picture"
                raise Flaw(value=f"{scans} scans", problem=problem, fix="save it as a baseline JPEG")
            return data
        case PictureKind.GIF | PictureKind.WEBP:
            return data


def _png_chunks(data: bytes) -> Iterator[bytes]:
    """The chunks that make the pixels, and a small eXIf; texts, profiles and later frames are passed over."""
    at = _PNG_SIGNATURE_BYTES
    for _ in range(PARTS_MAX):
        if at + 8 > len(data):
            return  # cut off: Pillow says where
        length, name = struct.unpack_from(">I4s", data, at)
        if name in _PNG_KEPT or (name == b"eXIf" and length <= _EXIF_BYTES_MAX):
            yield data[at : at + 12 + length]
        if name == b"IEND":
            return
        at += 12 + length
    raise Flaw(value=f"over {PARTS_MAX} chunks", problem="no encoder parts a PNG so", fix="save it anew")


def _decode(data: bytes, kind: PictureKind, *, side_max: int, pixels_max: int) -> Pixels:
    from PIL import Image, ImageOps

    with _opened(data, kind) as image:
        check_size(*image.size, most=pixels_limit(kind, pixels_max))  # a second header may have said more
        exceeds = max(image.size) / side_max
        if exceeds > 1:
            image.draft(None, (max(1, int(image.width / exceeds)), max(1, int(image.height / exceeds))))
        orientation = _orientation(image)
        image.load()
        if image.mode == "P" and image.palette is None:
            raise Flaw(value=f"a {kind} file", problem="its palette is missing", fix="save it anew")
        small = _to_rgb(image, factor=max(1, int(max(image.size) / side_max)))
    small.thumbnail((side_max, side_max), Image.Resampling.BICUBIC)
    if orientation != 1:
        small.getexif()[_ORIENTATION] = orientation
        small = ImageOps.exif_transpose(small)
    return np.asarray(small)


def _opened(data: bytes, kind: PictureKind) -> "Image":
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"):  # of broken EXIF, which doesn't matter here
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(io.BytesIO(data), formats=(kind.value,))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        problem = f"its headers disagree about its size: {error}"
        raise Flaw(value=f"a {kind} file", problem=problem, fix="save it anew") from error


def _orientation(image: "Image") -> int:
    """EXIF's orientation, 1 to 8. Many a camera writes broken EXIF; the picture is then shown as stored."""
    try:
        with warnings.catch_warnings(action="ignore"):
            value: object = image.getexif().get(_ORIENTATION)
    except _PILLOW_ERRORS:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _to_rgb(image: "Image", *, factor: int) -> "Image":
    """RGB, smaller by `factor`, band by band, so that no second picture of the full size is made."""
    from PIL import Image

    backdrop = _backdrop(image)
    result = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
    rows = factor * max(1, _BAND_PIXELS // (image.width * factor))
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        result.paste(_flat(band, backdrop).reduce(factor), (0, top // factor))
    return result


def _flat(band: "Image", backdrop: str) -> "Image":
    from PIL import Image

    if band.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip instead of scaling
        grey = np.asarray(band).astype(np.int64) >> 8
        return Image.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB")
    if not band.has_transparency_data:
        return band.convert("RGB")
    layer = band.convert("RGBA")
    base = Image.new("RGBA", layer.size, backdrop)
    base.alpha_composite(layer)
    return base.convert("RGB")


def _backdrop(image: "Image") -> str:
    """White, or black where what can be seen is nearly white itself, such as a light logo."""
    from PIL import Image

    if not image.has_transparency_data:
        return "white"
    sample = image.resize((min(256, image.width), min(256, image.height)), Image.Resampling.NEAREST).convert("RGBA")
    values = np.asarray(sample, np.float32)
    weight = values[:, :, 3]
    if not weight.any():
        return "white"
    return "black" if np.average(values[:, :, :3].mean(axis=2), weights=weight) > 200 else "white"
