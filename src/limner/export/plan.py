"""How an export is to look: what is in it, its layout, its pages and its pictures.

The same choices serve every format; which layouts a format has is written here once.
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
"""Page size → width and height in mm, upright."""

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    ".html": get_args(Layout),
    ".pdf": get_args(Layout),
    ".docx": ("book", "recipe", "article"),
    ".epub": ("book", "recipe", "article"),
    ".pptx": ("slides",),
    ".md": (),
    ".json": (),
}
"""Suffix → the layouts that the format has; the first is taken where none suits the text."""

PAGED = (".html", ".pdf", ".docx", ".pptx")
"""Suffixes of the formats that have pages of a size."""

PAGE_WORDS = 70
"""Mean number of words of a step up to which a text without headings reads as a picture book."""

FEW_STEPS = 6
"""Steps of a recipe up to which pictures have half of the page's width, and more than a third beyond."""

DPI = 220
"""Dots per inch at which a picture is printed: as fine as paper shows a photograph."""


@dataclass(frozen=True)
class Plan:
    """The choices of one export.

    Attributes:
        include: the whole text, or its steps alone.
        with_reasons: whether it tells why each picture was chosen, and how the storyboard was made.
        layout: how text and pictures stand; None: as suits the text.
        page_size: of formats with pages; None: A4, and for slides a wide screen.
        originals: whether pictures keep all their pixels; in Markdown, their files as they are.
    """

    include: Include = "everything"
    with_reasons: bool = False
    layout: Layout | None = None
    page_size: PageSize | None = None
    originals: bool = False

    def check(self, suffix: str) -> None:
        """Refuse what a format does not have.

        Args:
            suffix: of the format, such as .pdf.
        Raises:
            ConfigError: an unknown choice, or a layout or page size that the format does not have.
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
        """The layout chosen, or the one that suits the text best among those of the format."""
        suited = self.layout or suited_to(story)
        return suited if suited in LAYOUTS[suffix] else LAYOUTS[suffix][0]

    def page_mm(self) -> tuple[float, float]:
        """Width and height of a page, upright."""
        return SIZES_MM[self.page_size or "a4"]

    def area_px(self, width_mm: float, height_mm: float) -> int | None:
        """How many pixels a picture needs that fills a box; None, all it has, where originals are wanted."""
        if self.originals:
            return None
        return math.ceil(width_mm * height_mm * (DPI / 25.4) ** 2)


def picture_share(story: Story) -> float:
    """The share of a page's width that pictures have beside the steps of a recipe."""
    return 0.5 if len(story.steps) <= FEW_STEPS else 0.37


def suited_to(story: Story) -> Layout:
    """Recipe for numbered steps or a list of supplies, article for a text with headings, else book."""
    headings = [part.text for part in story.between if part.kind == "heading"]
    if any(map(names_supplies, headings)) or any(step.parts and step.parts[0].number for step in story.steps):
        return "recipe"
    words = sum(len(step.text.split()) for step in story.steps)
    titled = bool(headings) or len({step.title for step in story.steps}) > 1
    return "article" if titled or words > PAGE_WORDS * len(story.steps) else "book"
