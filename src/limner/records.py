"""The records everything else passes around: stories of steps, pictures and storyboards.

Frozen pydantic models, so that each has one JSON form, checked when read.
"""

from collections import Counter
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from limner.errors import counted

Segmentation = Literal["step", "paragraph", "sentence", "heading"]


@cache
def limner_version() -> str:
    """Version of the installed package, as storyboards and studies note it."""
    return version("limner")


class Record(BaseModel):
    """Base of all records: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Record):
    """A file and what is wrong with it."""

    path: str
    reason: str


class PictureRef(Record):
    """A picture that a text already names: a choice of its author.

    Attributes:
        target: path or URL exactly as written in the text.
        path: the file it resolves to, absolute; None for a URL or a file that is not there or not allowed.
        alt: alternative text, as written.
        caption: what the text says below or above it, such as "Figure 1: The yard"; "" for nothing.
        sha256: hash of the original file where a data set states it; in a storyboard, that of the file when
            the text was illustrated. Exports and studies show a file of the text only if it still has it.
        problem: why it cannot be shown, such as "is not there"; "" where nothing is wrong or nobody looked.
    """

    target: str
    path: str | None = None
    alt: str = ""
    caption: str = ""
    sha256: str | None = None
    problem: str = ""


class Mark(Record):
    """Words inside a text that stand out from it, or that lead elsewhere.

    Attributes:
        start, end: where they begin and end, counted in characters.
        kind: how they stand out; `above` and `below` are raised and lowered letters.
        target: of a link, its address as written.
    """

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    kind: Literal["strong", "emphasis", "code", "struck", "above", "below", "link"]
    target: str = ""


class Passage(Record):
    """Words and what stands out of them.

    Attributes:
        text: the words; line ends are meant.
        marks: in the order of their beginnings.
    """

    text: str = ""
    marks: tuple[Mark, ...] = ()


class Part(Passage):
    """One heading, paragraph, item of a list, table, piece of code or break, as the author set it.

    Attributes:
        kind: what it is.
        level: 1 to 6 of a heading.
        depth: how many lists it stands in.
        number: of an item of a numbered list.
        quoted: it stands in a quotation.
        rows: cells of a table, row by row.
        head: how many rows of a table are its head.
        pictures: pictures that the text shows here, outside its steps.
    """

    kind: Literal["heading", "paragraph", "item", "code", "table", "break"] = "paragraph"
    level: int = Field(default=0, ge=0, le=6)
    depth: int = Field(default=0, ge=0)
    number: int | None = None
    quoted: bool = False
    rows: tuple[tuple[Passage, ...], ...] = ()
    head: int = Field(default=0, ge=0)
    pictures: tuple[PictureRef, ...] = ()


class Between(Part):
    """A part of the text that is in no step.

    Attributes:
        before: number of the step that it stands before, from 0; that of all steps where it stands last.
    """

    before: int = Field(ge=0)


class Step(Record):
    """One unit of text that gets one picture.

    Attributes:
        text: the words, Unicode, as written apart from markup and surrounding white space.
        title: the heading above it, if any.
        pictures: pictures the text itself shows here, in order.
        parts: the same words with their markup; empty where they are one plain paragraph.
        lines: of a text that came as Markdown, the first line that it is written in, from 0, and the one
            after its last.
    """

    text: str = Field(min_length=1)
    title: str = ""
    pictures: tuple[PictureRef, ...] = ()
    parts: tuple[Part, ...] = ()
    lines: tuple[int, int] | None = None


class Story(Record):
    """A text cut into steps.

    Attributes:
        id: stable name inside its source (file stem or data set id).
        title: its title, or "".
        steps: at least one.
        between: what of the text is in no step, in its order: introduction, ingredients, headings, notes.
        by: how the text was cut.
        language: BCP 47 tag where the source states one.
        direction: writing direction of most of its letters.
        split: train, val or test, where a data set states it.
        author, illustrator, license, source: credits, as stated.
        markdown: what it was read from, letter by letter, where that is Markdown; pictures that an earlier
            export put in are taken out.
    """

    id: str
    title: str = ""
    steps: tuple[Step, ...] = Field(min_length=1)
    between: tuple[Between, ...] = ()
    by: Segmentation = "step"
    language: str = ""
    direction: Literal["ltr", "rtl"] = "ltr"
    split: Literal["", "train", "val", "test"] = ""
    author: str = ""
    illustrator: str = ""
    license: str = ""
    source: str = ""
    markdown: str = ""


class Caption(Record):
    """Words that belong to a picture.

    Attributes:
        text: the words.
        source: where they come from: exif, iptc, xmp, keywords, sidecar, metadata, filename; library for
            what the user wrote there; model for what a model of the user's says that the picture shows.
    """

    text: str = Field(min_length=1)
    source: Literal["exif", "iptc", "xmp", "keywords", "sidecar", "metadata", "filename", "library", "model"]


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
        captions: words from metadata, sidecars and a readable file name, and a model's description; or what
            the user wrote in their place.
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


SCHEMA_VERSION: Literal[1] = 1

MOST_PICTURES = 4
"""Pictures that a step may show."""

Fit = Literal["fits", "maybe", "weak"]
Origin = Literal["decoded", "pinned", "given", "blank"]
Blank = Literal["asked for", "no words", "nothing fits", "all used", "ruled out"]
BLANK_WORDS: dict[Blank, str] = {
    "asked for": "as you wished",
    "no words": "no words to go by",
    "nothing fits": "no picture fits",
    "all used": "every picture that fits is already used",
    "ruled out": "you ruled out what fits",
}
"""Why a step is blank, in words."""
Share = Annotated[float, Field(ge=0, le=1)]


Show = Literal["cautious", "usual", "always"]
"""How readily a picture is shown: only where it probably fits, where it may, or at every step."""

FITS, WEAK = 0.5, 0.2
"""Chances from which a picture is said to fit, and below which it is said to be weak."""
FIT_WORDS: dict[Fit, str] = {"fits": "fits", "maybe": "may fit", "weak": "weak"}


class Candidate(Record):
    """A picture considered for a step.

    Attributes:
        picture: the picture.
        score: log-odds that it is the one for the step, from its own words and pixels.
        channels: channel → by how many standard deviations it is above the library's pictures for this step;
            a channel that the picture lacks is not listed.
        agreement: log-odds that the pictures of the other steps, and those that are fixed, add.
        probability: chance that it fits the step, 0 to 1; None with a trained run, for which none was fitted.
        matched: words of the step met in the picture's captions or labels.
    """

    picture: Picture
    score: float
    channels: dict[str, float] = Field(default_factory=dict)
    # the older names are still read
    agreement: float = Field(default=0.0, validation_alias=AliasChoices("agreement", "pairwise", "pull"))
    probability: float | None = Field(default=None, ge=0, le=1)
    matched: tuple[str, ...] = ()

    @property
    def strength(self) -> float:
        """Log-odds of all that speaks for it."""
        return self.score + self.agreement

    @property
    def fit(self) -> Fit | None:
        """Its chance in a word; None without one."""
        return None if self.probability is None else fit_of(self.probability)

    @property
    def why(self) -> str:
        """By how much each channel puts it above the library's pictures, and the words that it shares."""
        parts = [f"{name} {value:+.1f} deviations" for name, value in self.channels.items()]
        shared = f"; words in common: {', '.join(self.matched)}" if self.matched else ""
        return (", ".join(parts) or "nothing is known of it") + shared


def fit_of(probability: float) -> Fit:
    """A chance in a word."""
    return "fits" if probability >= FITS else "maybe" if probability >= WEAK else "weak"


def chance_in_words(probability: float) -> str:
    """A chance in percent and in a word: ``34 % (may fit)``."""
    return f"{percent(probability)} % ({FIT_WORDS[fit_of(probability)]})"


def percent(probability: float) -> str:
    """A probability as a whole number of percent, ``under 1`` or ``over 99``."""
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
    """How a picture is shown at a step, and what the author says of it there.

    Attributes:
        crop: the part that is shown; None for all of it.
        focus: (x, y) of what must stay in sight where a place on a page has another shape, in fractions of
            the upright picture; None for the middle of what is shown.
        caption: words below it; None for what is known of its source.
        alt: words for who cannot see it; None for its description.
    """

    crop: Area | None = None
    focus: tuple[Share, Share] | None = None
    caption: str | None = Field(default=None, max_length=2000)
    alt: str | None = Field(default=None, max_length=2000)


class BoardStep(Record):
    """One step and what was decided for it.

    Attributes:
        position: 0-based step number in the story.
        chosen: the picture, or None for a blank.
        more: further pictures that the user added, shown after it.
        framing: id of a shown picture → how it is shown; those that are not named are shown whole.
        origin: who decided: limner (`decoded`), a pin of the user, the text itself, or nobody (blank).
        reason: one plain sentence.
        blank: of a step without a picture, why: the user wanted none, it has no words, no picture fits, all
            that fit are shown at other steps, or the user ruled them out; None where a picture is shown.
        probability: chance that the chosen picture fits the step, 0 to 1, and of a blank, that the best
            candidate would; None where the step was fixed or a trained run chose.
        gap: strength of the choice minus that of the best runner-up; None without either.
        runners_up: other candidates, best first.
        relations: relation → probability that it holds between the text and the chosen picture, as a
            trained model predicts it; empty without one.
        attention: words of the text in their order, each with its share of a trained model's attention;
            the shares add up to 1. Empty without one.
    """

    position: int = Field(ge=0)
    chosen: Candidate | None = None
    more: tuple[Picture, ...] = Field(default=(), max_length=MOST_PICTURES - 1)
    framing: dict[str, Framing] = Field(default_factory=dict)
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
        """The picture shown, the first of several; None for a blank."""
        return None if self.chosen is None else self.chosen.picture

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All pictures shown, in order; none for a blank."""
        return () if self.chosen is None else (self.chosen.picture, *self.more)


_SUMMED: dict[Origin, str] = {
    "decoded": "chosen",
    "pinned": "pinned",
    "given": "with the text's own picture",
}
"""Origin of a picture → how the summary of a storyboard counts it."""


class Board(Record):
    """A whole illustrated story.

    Attributes:
        story: the text.
        steps: one per step of the story, in order.
        library: name of the library folder, without its parents.
        channels: channels that took part.
        threshold: chance below which a step was left blank; 0 where none was.
        settings: the options it was made with, as given.
        version: limner version.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    story: Story
    steps: tuple[BoardStep, ...]
    library: str = ""
    channels: tuple[str, ...] = ()
    threshold: float = Field(default=0.0, ge=0, le=1)
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    version: str = ""

    @model_validator(mode="before")
    @classmethod
    def _older(cls, raw: Any) -> Any:  # noqa: ANN401  (whatever was read)
        """Storyboards of limner 0.1 tell of a decoder and count in nats; both are left out."""
        if not isinstance(raw, dict) or "decoder" not in raw:
            return raw

        def without(found: Any, *names: str) -> Any:  # noqa: ANN401
            left_out = isinstance(found, dict)
            return {name: value for name, value in found.items() if name not in names} if left_out else found

        steps = []
        for step in raw.get("steps", ()):
            told = without(step, "silent")
            if isinstance(told, dict):
                others = [without(one, "channels") for one in told.get("runners_up") or ()]
                told |= {"chosen": without(told.get("chosen"), "channels"), "runners_up": others}
            steps.append(told)
        kept = {name: value for name, value in raw.items() if name not in ("decoder", "anchor", "objective")}
        return kept | {"steps": steps}

    @property
    def shown(self) -> dict[int, str | None]:
        """0-based step → id of the picture it shows, or None for a blank."""
        return {step.position: None if step.picture is None else step.picture.id for step in self.steps}

    def __str__(self) -> str:
        """One line per step: number, how it came to be, and its picture; then how many came to be so."""
        rows = [
            (step.position + 1, "chosen" if step.origin == "decoded" else step.origin, step.picture)
            for step in self.steps
        ]
        lines = [f"{n:3d}  {origin:8s} {picture.path if picture else 'blank'}" for n, origin, picture in rows]
        origins = Counter(step.origin for step in self.steps)
        parts = [f"{origins[origin]:,} {words}" for origin, words in _SUMMED.items() if origins[origin]]
        left, why = f"{origins['blank']:,} left blank", self.blanks()
        if list(why.values()) == [origins["blank"]]:
            left += f": {BLANK_WORDS[next(iter(why))]}"
        elif why:
            left += f" ({'; '.join(f'{count}: {BLANK_WORDS[one]}' for one, count in why.items())})"
        weak = f"; {counted(len(self.weak), 'weak match', 'weak matches')}" if self.weak else ""
        return "\n".join([*lines, f"{counted(len(self.steps), 'step')}: {', '.join([*parts, left])}{weak}"])

    @property
    def weak(self) -> tuple[int, ...]:
        """Positions of the steps whose picture probably does not fit."""
        return tuple(
            step.position
            for step in self.steps
            if step.chosen is not None and step.probability is not None and step.probability < WEAK
        )

    def blanks(self) -> dict[Blank, int]:
        """Why steps show no picture → how many, in the order of `Blank`; only what occurs."""
        found = Counter(step.blank for step in self.steps if step.blank is not None)
        return {reason: found[reason] for reason in get_args(Blank) if found[reason]}
