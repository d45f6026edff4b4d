"""Small videos, made by FFmpeg."""

import av
from PIL import Image

SIZE = (96, 64)
RATE = 5


def scene(left, right, size=SIZE):
    """A picture in two colours."""
    image = Image.new("RGB", size, left)
    image.paste(right, (size[0] // 2, 0, *size))
    return image


SUNNY, GREEN = scene("gold", "navy"), scene("white", "darkgreen")
BLACK = Image.new("RGB", SIZE)


def write_video(path, *scenes, seconds=3, rotation=0, codec="mpeg4", **stated):
    """Write a video of several scenes, each of so many seconds, with a key frame every second."""
    with av.open(str(path), "w") as container:
        container.metadata.update(stated)
        stream = container.add_stream(codec, rate=RATE)
        stream.width, stream.height = SIZE
        stream.pix_fmt, stream.bit_rate, stream.codec_context.gop_size = "yuv420p", 1_000_000, RATE
        if rotation:
            stream.set_display_rotation(rotation)
        for image in scenes:
            for _ in range(RATE * seconds):
                container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode(None))
    return path
