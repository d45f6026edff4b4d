"""Camera raw files of a few pixels, laid by hand: a DNG with or without an embedded preview."""

import io
import struct

import numpy as np

_CODES = {"B": (1, 1), "s": (2, 1), "H": (3, 2), "I": (4, 4), "R": (5, 8), "r": (10, 8)}


def _packed(kind, values):
    if kind == "s":
        return values.encode() + b"\0"
    if kind in "Rr":
        return b"".join(struct.pack("<ii", round(value * 10_000), 10_000) for value in values)
    return struct.pack(f"<{len(values)}{kind}", *values)


def _directory(tags, start):
    """Bytes of a directory of tags that stands at `start`, with the values too long for it behind."""
    body, tail = b"", b""
    after = start + 2 + 12 * len(tags) + 4
    for tag, (kind, values) in sorted(tags.items()):
        code, size = _CODES[kind]
        data = _packed(kind, values)
        if len(data) > 4:
            field, tail = struct.pack("<I", after + len(tail)), tail + data + b"\0" * (len(data) % 2)
        else:
            field = data.ljust(4, b"\0")
        body += struct.pack("<HHI", tag, code, len(data) // size) + field
    return struct.pack("<H", len(tags)) + body + b"\0" * 4 + tail


def dng(image, *, preview=None, orientation=1, description="A red boat"):
    """A DNG whose sensor saw an image, as it lies on the sensor.

    Args:
        image: RGB, of even sides.
        preview: an embedded picture, kept as JPEG.
        orientation: as EXIF has it.
        description: the words inside.
    """
    light = (np.asarray(image.convert("RGB"), dtype=np.float64) / 255) ** 2.2
    mosaic = np.empty(light.shape[:2])
    for row, column, colour in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[row::2, column::2] = light[row::2, column::2, colour]
    pixels = (mosaic * 65535).astype("<u2").tobytes()
    camera = {271: ("s", "Limner"), 272: ("s", "Pinhole"), 274: ("H", [orientation]), 270: ("s", description)}
    files = {50706: ("B", [1, 4, 0, 0]), 50707: ("B", [1, 1, 0, 0]), 50708: ("s", "Limner Pinhole")}
    # sRGB as the camera's own colours: XYZ (D65) to linear sRGB.
    matrix = [3.2406, -1.5372, -0.4986, -0.9689, 1.8758, 0.0415, 0.0557, -0.2040, 1.0570]
    colours = {50721: ("r", matrix), 50728: ("R", [1.0, 1.0, 1.0]), 50778: ("H", [21])}
    sensor = {
        **{254: ("I", [0]), 256: ("I", [image.width]), 257: ("I", [image.height]), 258: ("H", [16])},
        **{259: ("H", [1]), 262: ("H", [32803]), 277: ("H", [1]), 278: ("I", [image.height])},
        **{33421: ("H", [2, 2]), 33422: ("B", [0, 1, 1, 2]), 50717: ("I", [65535])},
    }

    def strip(offset, data):
        return {273: ("I", [offset]), 279: ("I", [len(data)])}

    if preview is None:
        tags = {**camera, **files, **colours, **sensor}
        at = 8 + len(_directory({**tags, **strip(0, pixels)}, 8))
        return b"II*\0\x08\0\0\0" + _directory({**tags, **strip(at, pixels)}, 8) + pixels
    stream = io.BytesIO()
    preview.save(stream, "JPEG", quality=95)
    jpeg = stream.getvalue() + b"\0" * (len(stream.getvalue()) % 2)
    shown = {
        **{254: ("I", [1]), 256: ("I", [preview.width]), 257: ("I", [preview.height]), 258: ("H", [8, 8, 8])},
        **{259: ("H", [7]), 262: ("H", [6]), 277: ("H", [3]), 278: ("I", [preview.height])},
    }
    first = {**camera, **files, **colours, **shown}
    inner = 8 + len(_directory({**first, **strip(0, jpeg), 330: ("I", [0])}, 8))
    at = inner + len(_directory({**sensor, **strip(0, pixels)}, inner))
    return (
        b"II*\0\x08\0\0\0"
        + _directory({**first, **strip(at, jpeg), 330: ("I", [inner])}, 8)
        + _directory({**sensor, **strip(at + len(jpeg), pixels)}, inner)
        + jpeg
        + pixels
    )
