"""The records that all modules share: stories of steps, pictures and storyboards.

Frozen pydantic models, so that each has one JSON form, checked when read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, computed_field, model_validator

from limner.config import Record
from limner.errors import counted

Segmentation = Literal["step", "paragraph", "sentence", "heading"]


@cache
def limner_version() -> str:
    """Version of the installed package, as stored in storyboards and studies."""
    return version("limner")


class Problem(Record):
    """A file with an error."""

    path: str
    reason: str


class PictureRef(Record):
    """A picture that a text already shows: a choice of its author.

    Attributes:
        target: path or URL exactly as written in the text.
        path: absolute path of the file; None for a URL or a file that is missing or not allowed.
        alt: alternative text, as written.
        caption: its caption in the text, such as "Figure 1: The yard"; "" for none.
        sha256: hash of the original file where a data set states it; in a storyboard, that of the file when
            the text was illustrated. Exports and studies show a file of the text only if it still has it.
        problem: why it cannot be shown, such as "is not there"; "" if nothing is wrong or it was not checked.
        data: its bytes, if it lies inside the document and in no file; not part of the JSON form.
    """

    target: str
    path: str | None = None
    alt: str = ""
    caption: str = ""
    sha256: str | None = None
    problem: str = ""
    data: bytes | None = Field(default=None, exclude=True, repr=False)


class Mark(Record):
    """A formatted part of a text, or a link.

    Attributes:
        start, end: positions in the text, in characters; `end` is the first position after it.
        kind: format; `above` and `below` are superscript and subscript.
        target: URL of a link, as written.
    """

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    kind: Literal["strong", "emphasis", "code", "struck", "above", "below", "link"]
    target: str = ""


class Passage(Record):
    """A formatted text.

    Attributes:
        text: the text; its line breaks are intended.
        marks: formatted parts, in the order of their starts.
    """

    text: str = ""
    marks: tuple[Mark, ...] = ()


Role = Literal["", "supplies", "method", "aside"]
"""What the section of a block is for: ingredients or tools, the steps of a method, what is no step (tips,
nutrition, notes), or nothing of these.
"""
Look = Literal["bold", "italic", "larger", "underlined"]
"""How a reader found a whole line set; `limner.text.structure` alone decides whether it is a heading."""


class Block(Passage):
    """One heading, paragraph, list item, piece of code, table, picture or break of a text, as written.

    It is the only form of a text between its file and a page: readers make blocks, structure and segmentation
    find headings and steps among them, exports and edits walk over them.

    Attributes:
        kind: what it is; a picture has no text, its caption is that of its `pictures`. The text of a
            "wanted" block, at which the author asks for a picture, is what is to be seen, or "".
        level: level of a heading, 1 to 6; otherwise 0.
        depth: number of lists around it: 1 for an item of a list, also for a further paragraph of that item.
        number: number of an item of a numbered list; None for bullets and all else.
        quoted: whether it is part of a quotation.
        pictures: pictures that the text shows here, in order.
        rows: cells of a table, row by row; its text has a line a row, cells divided by " | ".
        head: number of header rows of a table.
        lines: for a text in Markdown, its first source line, from 0, and the line after its last.
        look: how the whole line is set, as its reader saw it.
        group: equal for blocks that stand together in a box of a page (figure, card, row); 0 for none.
        role: what its section is for.
    """

    kind: Literal["heading", "paragraph", "item", "code", "table", "picture", "break", "wanted"] = "paragraph"
    level: int = Field(default=0, ge=0, le=6)
    depth: int = Field(default=0, ge=0)
    number: int | None = None
    quoted: bool = False
    pictures: tuple[PictureRef, ...] = ()
    rows: tuple[tuple[Passage, ...], ...] = ()
    head: int = Field(default=0, ge=0)
    lines: tuple[int, int] | None = None
    look: tuple[Look, ...] = ()
    group: int = 0
    role: Role = ""


class Step(Record):
    """One unit of text that gets one picture.

    Attributes:
        text: the words, Unicode, as written apart from markup and surrounding white space.
        title: the heading above it, or "".
        pictures: pictures the text itself shows here, in order.
        run: index in the story's `blocks`, from 0, of its first block, and of the block after its last.

    Example:
        >>> limner.Step(text="A fox flew a kite.", title="Morning").text
        'A fox flew a kite.'
    """

    text: str = Field(min_length=1)
    title: str = ""
    pictures: tuple[PictureRef, ...] = ()
    run: tuple[int, int] = (0, 0)


class Story(Record):
    """A text divided into steps: its blocks in order, and its steps, each a run of them.

    What is in no step stands among the blocks where the author wrote it. A story made of steps alone gets one
    block for every step, and one for every heading.

    Attributes:
        id: stable name within its source (file stem or data set id).
        title: its title, or ""; the heading that states it is not among the blocks.
        steps: the steps, at least one, in order, without common blocks.
        blocks: the whole text.
        by: how the text was divided into steps.
        language: BCP 47 tag if the source states one, or "".
        direction: writing direction of most of its characters.
        split: train, val or test if a data set states it, or "".
        author, illustrator, license, source: credits, as stated, or "".
        cover: the picture that its metadata names as the one that stands for it; None for none.
        markdown: source text, unchanged, if it is Markdown; without pictures that an earlier export inserted.

    Example:
        >>> steps = [limner.Step(text="A fox flew a kite."), limner.Step(text="He sat by the fire.")]
        >>> story = limner.Story(id="fox", title="A windy day", steps=steps)
        >>> len(story.steps), [block.text for block in story.blocks]
        (2, ['A fox flew a kite.', 'He sat by the fire.'])
    """

    id: str
    title: str = ""
    steps: tuple[Step, ...] = Field(min_length=1)
    blocks: tuple[Block, ...] = ()
    by: Segmentation = "step"
    language: str = ""
    direction: Literal["ltr", "rtl"] = "ltr"
    split: Literal["", "train", "val", "test"] = ""
    author: str = ""
    illustrator: str = ""
    license: str = ""
    source: str = ""
    cover: PictureRef | None = None
    markdown: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Make the blocks of a story that has only steps, and check that runs are in order."""
        if not self.blocks:
            steps, blocks = blocks_of_steps(self.steps)
            self.__dict__.update(steps=steps, blocks=blocks)
        ends = [0, *(place for step in self.steps for place in step.run), len(self.blocks)]
        empty = any(step.run[0] == step.run[1] for step in self.steps)
        if empty or any(after < before for before, after in pairwise(ends)):
            raise ValueError("the runs of the steps are not in the order of the blocks")
        return self

    @property
    def places(self) -> frozenset[int]:
        """Indices of the steps that are places at which the author asks for a picture."""
        return frozenset(
            place for place, step in enumerate(self.steps) if self.blocks[step.run[0]].kind == "wanted"
        )

    def runs(self) -> Iterator[tuple[int | None, tuple[Block, ...]]]:
        """All blocks in order: those of each step with its index, those between steps with None."""
        end = 0
        for place, step in enumerate(self.steps):
            if end < step.run[0]:
                yield None, self.blocks[end : step.run[0]]
            end = step.run[1]
            yield place, self.blocks[step.run[0] : end]
        if end < len(self.blocks):
            yield None, self.blocks[end:]


def blocks_of_steps(steps: Sequence[Step]) -> tuple[tuple[Step, ...], tuple[Block, ...]]:
    """Blocks of steps that were not read from a text, and the steps with their runs.

    A heading that one step has alone is its first block; one of several steps stands before them.
    """
    blocks: list[Block] = []
    made: list[Step] = []
    for place, step in enumerate(steps):
        before = steps[place - 1].title if place else ""
        after = steps[place + 1].title if place + 1 < len(steps) else ""
        start = len(blocks)
        if step.title and step.title != before:
            blocks.append(Block(kind="heading", text=step.title, level=2))
            start += step.title == after
        words = [part.strip() for part in step.text.split("\n\n") if part.strip()]
        blocks += [Block(text=part) for part in words or [step.text]]
        blocks += [Block(kind="picture", pictures=(one,)) for one in step.pictures]
        made.append(step.model_copy(update={"run": (start, len(blocks))}))
    return tuple(made), tuple(blocks)


class Caption(Record):
    """A caption, or other words that belong to a picture.

    Attributes:
        text: the words.
        source: origin: exif, iptc, xmp, keywords, sidecar, metadata, filename; library for words that the
            user wrote in the library; model for the description by a vision model.
    """

    text: str = Field(min_length=1)
    source: Literal["exif", "iptc", "xmp", "keywords", "sidecar", "metadata", "filename", "library", "model"]


class Picture(Record):
    """One picture of a library. Files with the same content are one picture.

    Attributes:
        id: SHA-256 of the file's bytes, 64 hex digits.
        paths: all existing files with this content, absolute, sorted; for display (bytes that are not UTF-8
            are escaped).
        width_px, height_px: size of the upright picture, in pixels.
        format: Pillow's format name, such as JPEG.
        size_bytes: length of the file.
        phash: 64-bit perceptual hash, 16 hex digits.
        group: id of the near-duplicate group (smallest picture id in it); pictures of one group
            are never used together.
        taken: capture time, without a time zone if none is stated, at midnight if only the day is known; or
            None.
        taken_from: source of `taken`: camera (EXIF), stated (other metadata or the file name), digitized
            (only the time of digitizing is known), or "".
        camera: make and model of the camera, or "".
        captions: words from metadata, sidecars and a readable file name, and a model's description; or the
            words that the user wrote instead.
        labels: most probable classes of a classifier with their probabilities, best first.
        credit: creator or credit line from metadata, or "".
        license: copyright or licence from metadata, or "".

    Example:
        >>> picture = limner.Library("lib").find("shore/932fc7.jpg")
        >>> len(picture.id), picture.path.endswith("932fc7.jpg")
        (64, True)
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
    taken_from: Literal["", "camera", "stated", "digitized"] = ""
    camera: str = ""
    captions: tuple[Caption, ...] = ()
    labels: tuple[tuple[str, float], ...] = ()
    credit: str = ""
    license: str = ""

    @property
    def path(self) -> str:
        """Path of its first file."""
        return self.paths[0]

    @property
    def alt(self) -> str:
        """Alt text: the first caption that is a description."""
        for caption in self.captions:
            if caption.source != "keywords":
                return caption.text
        return self.captions[0].text if self.captions else ""


SCHEMA_VERSION: Literal[2] = 2

Fit = Literal["fits", "maybe", "weak"]
Origin = Literal["decoded", "pinned", "given", "blank"]
Blank = Literal["asked for", "missing", "no words", "nothing fits", "all used", "ruled out", "enough"]
BLANK_WORDS: dict[Blank, str] = {
    "asked for": "as you wished",
    "missing": "the text's own picture cannot be shown",
    "no words": "no words to go by",
    "nothing fits": "no picture fits",
    "all used": "every picture that may fit is already used",
    "ruled out": "you ruled out what fits",
    "enough": "other steps have the pictures that were wanted",
}
"""Why a step is blank, in words."""
Share = Annotated[float, Field(ge=0, le=1)]


NO_COVER = "none"
"""Option for a text without a cover."""

Show = Literal["cautious", "usual", "always"]
Arrangement = Literal["taken", "name", "any"]
"""Order of the photographs of a text: that in which they were taken, that of their names, or none."""
"""When to show a picture: only if it probably fits, if it may fit, or at every step."""

FITS, WEAK = 0.5, 0.2
"""Probabilities from which a picture is called fitting, and below which it is called weak."""
FIT_WORDS: dict[Fit, str] = {"fits": "fits", "maybe": "may fit", "weak": "weak"}


class Candidate(Record):
    """A picture considered for a step.

    Attributes:
        picture: the picture.
        score: log-odds that it is the picture for the step, from its own captions and pixels.
        channels: score for this step by channel, in standard deviations above the mean of the library's
            pictures, without channels that the picture lacks.
        agreement: log-odds added by the pictures of the other steps and by fixed pictures.
        probability: probability that it fits the step, from 0 to 1; None with a trained run, which is not
            calibrated.
        matched: words of the step that are in the picture's captions or labels.

    Example:
        >>> hit = limner.Library("lib").search("a boat", k=1)[0]
        >>> hit.fit in ("fits", "maybe", "weak")
        True
    """

    picture: Picture
    score: float
    channels: dict[str, float] = Field(default_factory=dict)
    agreement: float = 0.0
    probability: float | None = Field(default=None, ge=0, le=1)
    matched: tuple[str, ...] = ()

    @property
    def strength(self) -> float:
        """Sum of `score` and `agreement`, in log-odds."""
        return self.score + self.agreement

    @property
    def fit(self) -> Fit | None:
        """The probability in a word; None without a probability."""
        return None if self.probability is None else fit_of(self.probability)

    @property
    def why(self) -> str:
        """Scores of the channels, and the words that the picture shares with the step."""
        parts = [f"{name} {value:+.1f} deviations" for name, value in self.channels.items()]
        shared = f"; words in common: {', '.join(self.matched)}" if self.matched else ""
        return (", ".join(parts) or "nothing is known about it") + shared


def fit_of(probability: float) -> Fit:
    """Probability in a word."""
    return "fits" if probability >= FITS else "maybe" if probability >= WEAK else "weak"


def chance_in_words(probability: float) -> str:
    """Probability in percent and in a word: ``34 % (may fit)``."""
    return f"{percent(probability)} % ({FIT_WORDS[fit_of(probability)]})"


def percent(probability: float) -> str:
    """Probability as a whole number of percent, ``under 1`` or ``over 99``."""
    return (
        "under 1" if probability < 0.01 else "over 99" if probability > 0.99 else f"{probability * 100:.0f}"
    )


class Area(Record):
    """A part of a picture, in fractions of its upright width and height.

    Attributes:
        x, y: its upper left corner.
        width, height: its size; it does not reach beyond the picture.
    """

    x: Share
    y: Share
    width: float = Field(ge=0.01, le=1)
    height: float = Field(ge=0.01, le=1)

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if max(self.x + self.width, self.y + self.height) > 1 + 1e-6:
            raise ValueError("the area reaches beyond the picture; x + width and y + height are at most 1")
        return self


WHOLE = Area(x=0, y=0, width=1, height=1)
"""All of a picture."""


class Framing(Record):
    """Crop, caption and alt text of a picture at a step.

    Attributes:
        crop: crop area; None for the whole picture.
        focus: focal point (x, y), which stays visible if a layout crops the picture, in fractions of the
            upright picture; None for the centre of the crop area.
        caption: caption below the picture; None for its credit.
        alt: alt text; None for its description.
    """

    crop: Area | None = None
    focus: tuple[Share, Share] | None = None
    caption: str | None = Field(default=None, max_length=2000)
    alt: str | None = Field(default=None, max_length=2000)


class BoardStep(Record):
    """One step of a storyboard, with its pictures.

    Attributes:
        position: index of the step in the story, from 0.
        chosen: the picture, or None for a blank.
        framing: crop, caption and alt text of the picture; by default it is shown whole.
        origin: who chose the picture: limner (`decoded`), a pin of the user, or the text itself; or blank.
        reason: reason for the choice, in one sentence.
        blank: reason for a blank: the user wanted none, the text's own picture cannot be shown, the step has
            no words, no picture fits, all that fit are shown at other steps, the user ruled them out, or
            other steps have as many pictures as the text gets; None if a picture is shown.
        probability: probability that the chosen picture fits the step, from 0 to 1; for a blank, that of the
            best candidate; None if the step was fixed or a trained run chose.
        gap: strength of the choice minus that of the best runner-up, in log-odds; None without either.
        runners_up: other candidates, best first.
        relations: probability that a relation holds between the text and the chosen picture, by relation, as
            a trained model predicts it; empty without one.
        attention: words of the text, in order, each with its share of a trained model's attention; the shares
            add up to 1. Empty without such a model.

    Example:
        >>> board = limner.Library("lib").illustrate(["A girl sails a boat."], show="always")
        >>> board.steps[0].origin, board.steps[0].picture is not None
        ('decoded', True)
    """

    position: int = Field(ge=0)
    chosen: Candidate | None = None
    framing: Framing = Framing()
    origin: Origin
    reason: str = ""
    blank: Blank | None = None
    probability: float | None = Field(default=None, ge=0, le=1)
    gap: float | None = None
    runners_up: tuple[Candidate, ...] = ()
    relations: dict[str, Share] = Field(default_factory=dict)
    attention: tuple[tuple[str, Share], ...] = ()

    @property
    def picture(self) -> Picture | None:
        """The picture; None for a blank."""
        return None if self.chosen is None else self.chosen.picture


_SUMMED: dict[Origin, str] = {
    "decoded": "chosen",
    "pinned": "pinned",
    "given": "with the text's own picture",
}
"""Words for the origin of a picture in the summary of a storyboard."""


class RowPhotograph(Record):
    """A photograph of a text's own row.

    Attributes:
        picture: its id.
        place: index of its place in the row, from 0; photographs of one place are shots of the same moment.
            None if the row has no order.
        step: index of the step to which it belongs, from 0, which shows it or another photograph of the row;
            None if it belongs to none.
    """

    picture: str
    place: int | None = None
    step: int | None = None


class TextRow(Record):
    """The photographs that were named beside a text, and how they lie along its steps.

    Attributes:
        named: folders and pictures that were named.
        name: name of the folder or picture that was named first, and of what was named besides.
        order: source of the order: ``numbers`` that a person gave, times (``taken``), a ``counter`` in the
            names, the ``name``, or ``any`` if there is none.
        photographs: the photographs, in order.
    """

    named: tuple[str, ...]
    name: str
    order: Literal["numbers", "taken", "counter", "name", "any"]
    photographs: tuple[RowPhotograph, ...]

    def summary(self, pictures: Sequence[Picture]) -> str:
        """One line: how many photographs lie along how many steps, and which belong to none.

        Args:
            pictures: records of the photographs.
        """
        shown = sum(one.step is not None for one in self.photographs)
        steps = counted(len({one.step for one in self.photographs} - {None}), "step")
        if self.order == "any":
            return f"{shown} of {counted(len(self.photographs), 'photograph')} of {self.name} at {steps}"
        name = {one.id: Path(one.path).name for one in pictures}
        places: dict[int | None, list[RowPhotograph]] = {}
        for one in self.photographs:
            places.setdefault(one.place, []).append(one)
        left = [shots[0].picture for shots in places.values() if all(one.step is None for one in shots)]
        along = len(places) - len(left)
        if not along:
            return f"{counted(len(places), 'photograph')} of {self.name}: none belongs to a step"
        how = {"numbers": "of their numbers", "taken": "taken"}.get(self.order, "of their names")
        line = (
            f"{counted(along, 'photograph')} of {self.name} {'lies' if along == 1 else 'lie'} along {steps}"
            f" in the order {how} (--order any if they have none)"
        )
        if left:
            listed = ", ".join(name.get(one, one) for one in left[:MANY_LEFT])
            more = f" and {len(left) - MANY_LEFT} more" if len(left) > MANY_LEFT else ""
            line += f"; {len(left)} {'belongs' if len(left) == 1 else 'belong'} to no step: {listed}{more}"
        return line


MANY_LEFT = 5
"""Number of photographs that a summary names."""


class Board(Record):
    """A storyboard: an illustrated story.

    Attributes:
        story: the text.
        steps: one per step of the story, in order.
        library: name of the library's folder, without its parents.
        channels: names of the channels that were used.
        threshold: probability below which a step was left blank; 0 if no step could be.
        settings: options that were given.
        row: the photographs that were named beside the text; None if none were.
        cover: the picture that stands for the text, named by a person or found in the row; None for the one
            that the text itself names or shows first.
        wanted: what is to be seen in marked places that stay blank; the text beside those without words.
        version: limner version.
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    story: Story
    steps: tuple[BoardStep, ...]
    library: str = ""
    channels: tuple[str, ...] = ()
    threshold: float = Field(default=0.0, ge=0, le=1)
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    row: TextRow | None = None
    cover: Picture | None = None
    version: str = ""

    @model_validator(mode="before")
    @classmethod
    def _without_wanted(cls, data: Any) -> Any:  # noqa: ANN401  (before it is checked)
        """Values without what follows from others."""
        return (
            {name: one for name, one in data.items() if name != "wanted"} if isinstance(data, dict) else data
        )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def wanted(self) -> tuple[str, ...]:
        """See the class."""
        blank = sorted(place for place in self.story.places if self.steps[place].picture is None)
        steps = self.story.steps
        return tuple(self.story.blocks[steps[one].run[0]].text or steps[one].text for one in blank)

    def wanted_line(self) -> str | None:
        """One line that lists the marked places that stay blank; None if there are none."""
        if not self.wanted:
            return None
        words = ", ".join(f'"{words}"' for words in self.wanted)
        count = counted(len(self.story.places), "place")
        return f"{len(self.wanted)} of {count} {'stays' if len(self.wanted) == 1 else 'stay'} blank: {words}"

    @property
    def shown(self) -> dict[int, str | None]:
        """Id of the picture, or None for a blank, by index of the step, from 0."""
        return {step.position: None if step.picture is None else step.picture.id for step in self.steps}

    def __str__(self) -> str:
        """One line per step, with number, origin and picture; then the counts of the origins."""
        rows = [
            (step.position + 1, "chosen" if step.origin == "decoded" else step.origin, step.picture)
            for step in self.steps
        ]
        lines = [f"{n:3d}  {origin:8s} {picture.path if picture else '–'}" for n, origin, picture in rows]
        origins = Counter(step.origin for step in self.steps)
        parts = [f"{origins[origin]:,} {words}" for origin, words in _SUMMED.items() if origins[origin]]
        left, why = f"{origins['blank']:,} left blank", self.blanks()
        if list(why.values()) == [origins["blank"]]:
            left += f": {BLANK_WORDS[next(iter(why))]}"
        elif why:
            left += f" ({'; '.join(f'{count}: {BLANK_WORDS[one]}' for one, count in why.items())})"
        weak = f"; {counted(len(self.weak), 'weak match', 'weak matches')}" if self.weak else ""
        if why.get("enough") and self.settings.get("count") is None:
            shown = counted(len(self.steps) - origins["blank"], "picture")
            lines.append(f"{shown} for {counted(len(self.steps), 'paragraph')} (--pictures all for each)")
        return "\n".join([*lines, f"{counted(len(self.steps), 'step')}: {', '.join([*parts, left])}{weak}"])

    @property
    def weak(self) -> tuple[int, ...]:
        """Indices, from 0, of the steps whose picture probably does not fit."""
        return tuple(
            step.position
            for step in self.steps
            if step.chosen is not None and step.probability is not None and step.probability < WEAK
        )

    def blanks(self) -> dict[Blank, int]:
        """Number of blank steps by reason, in the order of `Blank`, without reasons that do not occur."""
        found = Counter(step.blank for step in self.steps if step.blank is not None)
        return {reason: found[reason] for reason in get_args(Blank) if found[reason]}
