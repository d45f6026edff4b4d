"""Options of an export: content, layout, pages and pictures.

The options are the same for every format; the layouts of each format are listed here.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from limner.errors import ConfigError, unknown
from limner.records import Story
from limner.text.plain import names_supplies

Include = Literal["everything", "steps"]
Layout = Literal["book", "recipe", "article", "slides"]
PageSize = Literal["a4", "a5", "letter"]

SIZES_MM: dict[PageSize, tuple[float, float]] = {
    "a4": (210.0, 297.0),
    "a5": (148.0, 210.0),
    "letter": (215.9, 279.4),
}
"""Width and height in mm of the upright page, by page size."""

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    ".html": get_args(Layout),
    ".pdf": get_args(Layout),
    ".docx": ("book", "recipe", "article"),
    ".epub": ("book", "recipe", "article"),
    ".pptx": ("slides",),
    ".md": (),
    ".json": (),
}
"""Layouts of a format, by extension; the first is used if none suits the text."""

PAGED = (".html", ".pdf", ".docx", ".pptx")
"""Extensions of the formats with a page size."""

PAGE_WORDS = 70
"""Mean number of words of a step up to which a text without headings reads as a picture book."""

FEW_STEPS = 6
"""Steps of a recipe up to which pictures have half of the page's width, and more than a third beyond."""

DPI = 220
"""Dots per inch at which a picture is printed: as fine as paper shows a photograph."""


@dataclass(frozen=True)
class Plan:
    """Options of one export.

    Attributes:
        include: the whole text, or only its steps.
        with_reasons: whether to include the reason for each choice and the settings that were used.
        layout: layout of text and pictures; None chooses it from the text.
        page_size: page size, for formats with pages; None for A4, or for slides a wide screen.
        originals: whether to include full-resolution pictures; in Markdown, unchanged copies.
    """

    include: Include = "everything"
    with_reasons: bool = False
    layout: Layout | None = None
    page_size: PageSize | None = None
    originals: bool = False

    def check(self, suffix: str) -> None:
        """Reject options that a format does not have.

        Args:
            suffix: suffix of the format, such as .pdf.
        Raises:
            ConfigError: an option is unknown, or the format does not have that layout or page size.
        """
        for what, chosen, choices in (
            ("include", self.include, get_args(Include)),
            ("layout", self.layout, get_args(Layout)),
            ("page size", self.page_size, get_args(PageSize)),
        ):
            if chosen is not None and chosen not in choices:
                raise ConfigError(f"export: {unknown(what, chosen, choices)}")
        if self.layout is not None and self.layout not in LAYOUTS[suffix]:
            having = [each for each, layouts in LAYOUTS.items() if self.layout in layouts]
            raise ConfigError(
                f"export: {suffix} has no layout {self.layout};"
                f" expected {' or '.join(LAYOUTS[suffix]) or 'none'}; {', '.join(having)} have it"
            )
        if self.page_size is not None and suffix not in PAGED:
            raise ConfigError(f"export: {suffix} has no pages; leave the page size out")

    def layout_for(self, story: Story, suffix: str) -> Layout:
        """Chosen layout, or the format's layout that suits the text best."""
        suited = self.layout or suited_to(story)
        return suited if suited in LAYOUTS[suffix] else LAYOUTS[suffix][0]

    def page_mm(self) -> tuple[float, float]:
        """Width and height of a page, upright."""
        return SIZES_MM[self.page_size or "a4"]

    def area_px(self, width_mm: float, height_mm: float) -> int | None:
        """Number of pixels of a picture that fills a box; None for full resolution."""
        if self.originals:
            return None
        return math.ceil(width_mm * height_mm * (DPI / 25.4) ** 2)


def picture_share(story: Story) -> float:
    """The share of a page's width that pictures have beside the steps of a recipe."""
    return 0.5 if len(story.steps) <= FEW_STEPS else 0.37


def suited_to(story: Story) -> Layout:
    """Layout of a text: recipe for numbered steps or supplies, article for headings, otherwise book."""
    headings = [part.text for part in story.between if part.kind == "heading"]
    if any(map(names_supplies, headings)) or any(step.parts and step.parts[0].number for step in story.steps):
        return "recipe"
    words = sum(len(step.text.split()) for step in story.steps)
    titled = bool(headings) or len({step.title for step in story.steps}) > 1
    return "article" if titled or words > PAGE_WORDS * len(story.steps) else "book"
