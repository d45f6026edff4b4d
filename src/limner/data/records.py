"""The records everything else passes around: stories of steps, and pictures.

Frozen pydantic models, so that each has one JSON form, checked when read. Scores, vectors and
search results live elsewhere.
"""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Segmentation = Literal["step", "paragraph", "sentence", "heading"]


class Record(BaseModel):
    """Base of all records: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PictureRef(Record):
    """A picture that a text already names: a choice of its author.

    Attributes:
        target: path or URL exactly as written in the text.
        path: the file it resolves to, absolute; None for a URL or a file that is not there.
        alt: alternative text, as written.
        sha256: hash of the original file where a data set states it.
    """

    target: str
    path: str | None = None
    alt: str = ""
    sha256: str | None = None


class Step(Record):
    """One unit of text that gets one picture.

    Attributes:
        text: the words, Unicode, as written apart from markup and surrounding white space.
        title: the heading above it, if any.
        pictures: pictures the text itself shows here, in order.
    """

    text: str = Field(min_length=1)
    title: str = ""
    pictures: tuple[PictureRef, ...] = ()


class Story(Record):
    """A text cut into steps.

    Attributes:
        id: stable name inside its source (file stem or data set id).
        title: its title, or "".
        steps: at least one.
        by: how the text was cut.
        language: BCP 47 tag where the source states one.
        direction: writing direction of most of its letters.
        split: train, val or test, where a data set states it.
        author, illustrator, license, source: credits, as stated.
    """

    id: str
    title: str = ""
    steps: tuple[Step, ...] = Field(min_length=1)
    by: Segmentation = "step"
    language: str = ""
    direction: Literal["ltr", "rtl"] = "ltr"
    split: Literal["", "train", "val", "test"] = ""
    author: str = ""
    illustrator: str = ""
    license: str = ""
    source: str = ""


class Caption(Record):
    """Words that belong to a picture.

    Attributes:
        text: the words.
        source: where they come from: exif, iptc, xmp, keywords, sidecar, metadata, filename.
    """

    text: str = Field(min_length=1)
    source: Literal["exif", "iptc", "xmp", "keywords", "sidecar", "metadata", "filename"]


class Picture(Record):
    """One picture of a library: one content, whatever number of files hold it.

    Attributes:
        id: SHA-256 of the file's bytes, 64 hex digits.
        paths: every present file with this content, absolute, sorted; display text (surrogates of
            a non-UTF-8 name are escaped).
        width_px, height_px: upright size.
        format: Pillow's format name, such as JPEG.
        size_bytes: length of the file.
        phash: 64-bit perceptual hash, 16 hex digits.
        group: id of the near-duplicate group (smallest picture id in it); pictures of one group
            are never used together.
        taken: capture time as stated by the camera, without zone where none is stated.
        captions: words from metadata, sidecars and a readable file name.
        labels: most probable classes and probabilities from a classifier, best first.
        credit: creator or credit line from metadata, or "".
        license: copyright or licence from metadata, or "".
    """

    id: str
    paths: tuple[str, ...]
    width_px: int
    height_px: int
    format: str
    size_bytes: int
    phash: str
    group: str
    taken: datetime | None = None
    captions: tuple[Caption, ...] = ()
    labels: tuple[tuple[str, float], ...] = ()
    credit: str = ""
    license: str = ""

    @property
    def path(self) -> str:
        """The first file that holds it."""
        return self.paths[0]

    @property
    def alt(self) -> str:
        """Text for a reader who cannot see it: the first caption that is a description."""
        for caption in self.captions:
            if caption.source != "keywords":
                return caption.text
        return self.captions[0].text if self.captions else ""
