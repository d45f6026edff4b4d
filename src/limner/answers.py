"""What the library answers: storyboards and found pictures, which a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from limner import records
from limner.arguments import AnyPath, as_path
from limner.export import Exported, export, load
from limner.export.plan import Include, Layout, PageSize, Plan
from limner.match.illustrator import Answer
from limner.records import Candidate


class Storyboard(records.Storyboard):
    """A storyboard that can be saved, and that a notebook shows.

    Attributes:
        notes: what a person should know of how the text was read and its pictures chosen, a line each.
        kept: steps that stayed as an earlier storyboard has them; None where there was none to start from.
    """

    notes: tuple[str, ...] = Field(default=(), exclude=True)
    kept: int | None = Field(default=None, exclude=True)

    def __str__(self) -> str:
        """As that of a storyboard; then what was kept, and what was decided anew."""
        if self.kept is None:
            return super().__str__()
        return f"{super().__str__()}; {self.kept} kept, {len(self.steps) - self.kept} anew"

    @classmethod
    def load(cls, path: AnyPath) -> Storyboard:
        """A storyboard that was saved as JSON.

        Raises:
            MissingError: there is no such file.
            DataError: it holds no storyboard.
        """
        return cls(**dict(load(as_path(path, "load"))))

    def save(
        self,
        out: AnyPath,
        *,
        overwrite: bool = False,
        include: Include = "everything",
        with_reasons: bool = False,
        layout: Layout | None = None,
        page_size: PageSize | None = None,
        originals: bool = False,
    ) -> Exported:
        """Write the storyboard, whole or not at all.

        Args:
            out: a file; its suffix says what is written: .html (one page), .pdf, .docx, .epub, .pptx, .md
                (with copies of the pictures) or .json.
            overwrite: whether a file that is there may be replaced.
            include: the whole text, or its steps alone.
            with_reasons: whether it tells why each picture was chosen, and how the storyboard was made.
            layout: book, recipe, article or slides; None: as suits the text.
            page_size: a4, a5 or letter; None: A4, and for slides a wide screen.
            originals: whether pictures keep all their pixels; in Markdown, their files as they are.

        Returns:
            What was written, with what the reader of the file should know.

        Raises:
            ConfigError: an unknown suffix, or a layout or page size that the format does not have.
            LimnerError: as `limner.export.export`.
        """
        plan = Plan(include, with_reasons, layout, page_size, originals)
        board = records.Storyboard(**self._fields())
        return export(board, as_path(out, "save"), overwrite=overwrite, plan=plan)

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self if name not in ("notes", "kept")}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from limner.export.fragment import board_fragment

        return board_fragment(self, self.notes)


class Hits(list[Candidate]):
    """Pictures that were found, best first; a notebook shows them.

    Attributes:
        channels: ways in which they were compared.
        notes: what a person should know of them, a line each.
        searched: number of pictures among which they were sought: those that meet the conditions.
        below: number of the best that are left out since their chance is below the cut-off.
    """

    def __init__(self, found: Answer, channels: Sequence[str], notes: Sequence[str]) -> None:
        """Take what was found."""
        super().__init__(found)
        self.channels, self.notes = tuple(channels), tuple(notes)
        self.searched, self.below = found.searched, found.below

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from limner.export.fragment import hits_fragment

        return hits_fragment(self, self.notes)
