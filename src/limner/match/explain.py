"""Explains each step of a storyboard, in numbers and in one sentence, and gives advice if little fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import counted
from limner.language import ENGLISH, matched, stem, words
from limner.match.board import BLANK
from limner.match.candidates import Float64Array, IntArray, Pool
from limner.match.cast import Cast
from limner.match.probabilities import OCR, OCR_FROM, OCR_WEIGHT
from limner.records import WEAK, Blank, BoardStep, Candidate, Picture, fit_of, percent

if TYPE_CHECKING:
    from limner.match.rows import Placed
    from limner.records import Board
    from limner.store import Store


STANDS_OUT = 1.5
"""Standard score, among the library's pictures, from which a channel is named as a reason."""

NOTICEABLE = 0.3
"""Log-odds from which agreement is mentioned."""

EQUAL, MUCH = 0.2, 3.0
"""Limits of a difference in log-odds: below the first, two pictures are about equal; from the second, far
apart.
"""

CREDIBLE = 0.05
"""Probability from which a class label is quoted as a match."""

WORDED = {"captions", "multilingual", "labels", OCR}
"""Channels that compare a step with words; for others, no words are quoted as the reason."""

PLAIN = {
    "captions": "its caption means nearly the same",
    "multilingual": "its caption means nearly the same",
    OCR: "the text in the picture means nearly the same",
    "model": "the trained model finds that it fits",
    "relation": "it has the relation asked for",
}
"""Meaning of a high score in a channel; in all others, the content of the picture fits."""

SPARED = "Left without a picture: other steps have as many pictures as the text gets."

SURE = {"fits": "it probably fits", "maybe": "it may fit", "weak": "it probably does not fit"}


Written = Callable[[Sequence[str]], Mapping[str, str]]


def no_words(ids: Sequence[str]) -> Mapping[str, str]:
    """No text for any picture, used if OCR results are not available."""
    return {}


@dataclass(frozen=True)
class Considered:
    """Input of the explanations; C candidates, S steps, K columns.

    Attributes:
        texts: S texts as written.
        worded: (S,) whether a step has words to compare, not only symbols.
        cast: the protagonist and the named beings.
        ids: M picture ids of the gallery.
        pool: the candidates.
        score: (S, K) log-odds of a picture's own captions and pixels; −inf if there are none.
        agreement: (S, K) log-odds added by the other steps and by fixed pictures.
        pinned_by: (S, K) part of the agreement that is due to fixed pictures.
        columns: (S,) chosen columns or `BLANK`.
        chance: (S, K) probability that candidates fit; None without a calibration.
        limit: probability below which a step was left blank.
        ruled_out: (S,) whether a banned picture could have fitted.
        spared: steps left blank because the others have as many pictures as the text gets.
        pinned: steps that the user fixed.
        given: steps whose picture is in the text itself.
        held: steps that keep an earlier picture, so that nothing was chosen for them.
        allow_repeats: whether runners-up may be used elsewhere.
        runners_up: maximum number of runners-up.
        written: function from ids to the text in those pictures that show any.
        placed: what the order of photographs says; None if it says nothing.
        named_row: name of the photographs that are named beside the text; "" for the whole library.
        when_where: function from a step and a picture's id to the reason of time and place, or "".
    """

    texts: Sequence[str]
    worded: NDArray[np.bool_]
    cast: Cast
    ids: Sequence[str]
    pool: Pool
    score: Float64Array
    agreement: Float64Array
    pinned_by: Float64Array
    columns: IntArray
    chance: Float64Array | None
    limit: float
    ruled_out: NDArray[np.bool_]
    spared: frozenset[int]
    pinned: frozenset[int]
    given: frozenset[int]
    held: frozenset[int]
    allow_repeats: bool
    runners_up: int
    written: Written
    placed: Placed | None = None
    named_row: str = ""
    when_where: Callable[[int, str], str] = lambda _, __: ""

    @cached_property
    def _groups(self) -> list[int]:
        """Near-duplicate group of each step's picture; −1 for a blank."""
        shown = [step for step, column in enumerate(self.columns) if column != BLANK]
        found = np.full(len(self.columns), -1, dtype=np.int64)
        found[shown] = self.pool.groups[self.pool.items[shown, self.columns[shown]]]
        return list(found.tolist())

    def others(self, step: int) -> list[int]:
        """Other columns that the step could show, best first, one of each near-duplicate group."""
        groups, items = self.pool.groups, self.pool.items
        own = self._groups[step]
        taken = {own} if self.allow_repeats else set(self._groups)
        scored = np.isfinite(self.score[step])
        total = np.where(scored, self.score[step], 0.0) + self.agreement[step]
        total[~scored & (self.agreement[step] == 0)] = -np.inf
        found: list[int] = []
        for column in np.argsort(-total, kind="stable"):
            if len(found) == self.runners_up or total[column] == -np.inf:
                break
            group = int(groups[items[step, column]])
            if group not in taken:
                taken.add(group)
                found.append(int(column))
        return found


def explain(
    board: Considered,
    pictures: Callable[[Sequence[str]], list[Picture]],
    as_it_is: Mapping[int, BoardStep] | None = None,
) -> tuple[BoardStep, ...]:
    """Explain every step of a storyboard.

    Args:
        board: candidates and choices.
        pictures: function from ids to records in the same order; called once.
        as_it_is: steps that are already explained, by index.
    """
    known = as_it_is or {}
    columns = [
        [] if s in known else [*([int(column)] if column != BLANK else []), *board.others(s)]
        for s, column in enumerate(board.columns)
    ]
    ids = [
        [board.ids[int(board.pool.rows[board.pool.items[s, column]])] for column in own]
        for s, own in enumerate(columns)
    ]
    wanted = list(dict.fromkeys(chain.from_iterable(ids)))
    records = dict(zip(wanted, pictures(wanted), strict=True))
    shown = board.written(wanted) if OCR in board.pool.channels else {}
    return tuple(
        known[s]
        if s in known
        else _step(board, s, own, [_candidate(board, s, column, records, shown) for column in own], shown)
        for s, own in enumerate(columns)
    )


def _step(
    board: Considered, s: int, columns: list[int], found: list[Candidate], shown: Mapping[str, str]
) -> BoardStep:
    """Build a step from its candidates: the chosen one, unless it is blank, and the runners-up."""
    chosen, others = (found[0], found[1:]) if board.columns[s] != BLANK else (None, found)
    gap = None if chosen is None or not others else chosen.strength - others[0].strength
    fixed = s in board.pinned or s in board.given
    probability = None
    if board.chance is not None and not fixed:
        probability = float(board.chance[s].max(initial=0.0)) if chosen is None else chosen.probability
    blank: Blank | None = None
    origin: Literal["decoded", "pinned", "given", "blank"] = "decoded"
    if chosen is None and s in board.pinned:
        origin, blank, reason = "blank", "asked for", "No picture here, as you asked."
    elif chosen is None:
        origin = "blank"
        blank, reason = ("enough", SPARED) if s in board.spared else _why_blank(board, s, probability)
    elif s in board.pinned:
        origin, reason = "pinned", "You fixed this picture here."
    elif s in board.given:
        origin, reason = "given", "The text itself shows this picture here."
    elif board.placed is not None and board.placed.place[s, columns[0]]:
        reason = _why_there(board, board.placed, s, columns[0], chosen)
    else:
        reason = _why(board, s, columns[0], chosen, gap, shown)
    return BoardStep(
        position=s,
        chosen=chosen,
        origin=origin,
        reason=reason,
        blank=blank,
        probability=probability,
        gap=gap,
        runners_up=tuple(others),
    )


def _candidate(
    board: Considered, s: int, column: int, records: Mapping[str, Picture], shown: Mapping[str, str]
) -> Candidate:
    picture = records[board.ids[int(board.pool.rows[board.pool.items[s, column]])]]
    channels = {
        name: round(float(one.z[s, column]), 4)
        for name, one in board.pool.channels.items()
        if one.present[s, column]
    }
    score = board.score[s, column]
    return Candidate(
        picture=picture,
        score=float(score) if np.isfinite(score) else 0.0,
        channels=channels,
        agreement=float(board.agreement[s, column]),
        probability=None if board.chance is None else float(board.chance[s, column]),
        matched=matched(board.texts[s], chain(*_words_of(picture, channels), [shown.get(picture.id, "")])),
    )


def _words_of(picture: Picture, channels: Iterable[str]) -> tuple[list[str], list[str]]:
    """Captions and reliable class labels, as far as a channel compared them; others cannot be the reason."""
    if not WORDED & set(channels):
        return [], []
    labels = [name for name, probability in picture.labels if probability >= CREDIBLE]
    return [caption.text for caption in picture.captions], labels


def _why_there(board: Considered, placed: Placed, s: int, column: int, chosen: Candidate) -> str:
    """A sentence such as: The fourth of 9 photographs in Lemon cake, which follow your steps."""
    row, place = int(placed.row[s, column]), int(placed.place[s, column])
    name, size = placed.names[row], placed.sizes[row]
    reason = f"The {ordinal(place)} of {size:,} photographs in {name}, which follow your steps"
    if size == 1:
        reason = f"The only photograph in {name}"
    if taken := board.when_where(s, chosen.picture.id):
        reason += f"; {taken}"
    if chosen.probability is not None and fit_of(chosen.probability) != "fits":
        reason += f"; {SURE[fit_of(chosen.probability)]}"
    return f"{reason}."


def ordinal(number: int) -> str:
    """An ordinal number, such as "first" or "21st".

    Example:
        >>> ordinal(4), ordinal(11), ordinal(22)
        ('fourth', '11th', '22nd')
    """
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]


def _why(  # noqa: PLR0917
    board: Considered,
    s: int,
    column: int,
    chosen: Candidate,
    gap: float | None,
    shown: Mapping[str, str],
) -> str:
    """A sentence such as: Caption word “kite” matches; it goes with the pictures of the other steps."""
    found = _words_of(chosen.picture, chosen.channels)
    in_captions, in_labels = (matched(board.texts[s], words) for words in found)
    parts = [f"caption {_quoted(in_captions)}"] if in_captions else []
    if in_labels:
        parts.append(f"label {_quoted(in_labels)}")
    parts += filter(None, [board.when_where(s, chosen.picture.id)])
    parts += _written_in(board, s, column, shown.get(chosen.picture.id, ""))
    if not parts:
        strongest = max(chosen.channels, key=chosen.channels.__getitem__, default=None)
        if strongest is None:
            parts.append("nothing is known about it")
        elif chosen.channels[strongest] >= STANDS_OUT:
            parts.append(PLAIN.get(strongest, "what it shows comes closest"))
        else:
            parts.append("no picture stands out for this step")
    who = board.cast.protagonist
    if who and board.cast.spelled(board.texts[s]) != board.texts[s] and _shows(chosen.picture, who):
        parts.append(f"it shows the {who} that the text is about")
    if board.pinned_by[s, column] > NOTICEABLE:
        parts.append("it looks like the pictures that you fixed")
    elif board.agreement[s, column] > NOTICEABLE:
        parts.append("it goes with the pictures of the other steps")
    if chosen.probability is not None and fit_of(chosen.probability) != "fits":
        parts.append(SURE[fit_of(chosen.probability)])
    if gap is not None and abs(gap) < EQUAL:
        parts.append("another picture fits as well")
    elif gap is not None and gap < 0 and s not in board.held:
        parts.append("a better one is shown at another step or would be missed there")
    sentence = "; ".join(parts) + "."
    return sentence[0].upper() + sentence[1:]


def _written_in(board: Considered, s: int, column: int, text: str) -> list[str]:
    """The text in a picture as a reason: words in common with the step, or a noticeable evidence."""
    if in_common := matched(board.texts[s], [text]):
        listed = ", ".join(f"“{word}”" for word in in_common[:5])
        return [f"the picture says {listed}"]
    read = board.pool.channels.get(OCR)
    if read is None or not read.present[s, column]:
        return []
    return [PLAIN[OCR]] if OCR_WEIGHT * (read.cosine[s, column] - OCR_FROM) > NOTICEABLE else []


def _shows(picture: Picture, being: str) -> bool:
    """Whether a picture's words name a being."""
    return any(stem(being) in {stem(word) for word in words(one.text)} for one in picture.captions)


def _quoted(found: tuple[str, ...]) -> str:
    """Up to five words in quotation marks, with their verb."""
    listed = ", ".join(f"“{word}”" for word in found[:5])
    return f"word {listed} matches" if len(found) == 1 else f"words {listed} match"


def _why_blank(board: Considered, s: int, probability: float | None) -> tuple[Blank, str]:
    """Reason for a blank: the step has no words, the user banned all fitting pictures, nothing fits, or
    everything that fits is shown at other steps.
    """
    if not board.worded[s]:
        return "no words", "This step has no words to choose a picture by, only symbols."
    if board.ruled_out[s]:
        return "ruled out", "You ruled out the pictures that fit this step."
    if board.named_row:
        if probability is not None and probability >= board.limit:
            return "all used", f"The photographs of {board.named_row} belong to other steps."
        return "nothing fits", f"Probably no photograph of {board.named_row} belongs to this step."
    return _why_unfit(board, s, probability)


def _why_unfit(board: Considered, s: int, probability: float | None) -> tuple[Blank, str]:
    """The same for a step with words, if all pictures of a library count."""
    if not board.pool.available:
        return "nothing fits", "The library contains no picture that may be shown."
    if not np.isfinite(board.score[s]).any():
        return "nothing fits", "No picture in the library can be compared with this step."
    if probability is not None and probability < board.limit:
        return "nothing fits", (
            "Nothing in the library fits well enough: the best picture fits with a probability of"
            f" {probability:.0%}, but the threshold is {board.limit:.0%}."
        )
    if probability is None or fit_of(probability) == "fits":
        best = "All pictures that fit this step are shown at other steps."
    else:
        best = (
            "Pictures that might fit are shown at other steps; the best fits with a probability of"
            f" {probability:.0%}."
        )
    return "all used", best


UNANSWERED = ("nothing fits", "all used")
"""Reasons for a blank that more captions, encoders or pictures could remove."""
SETTLED = ("asked for", "missing", "no words", "enough")
"""Reasons for a blank that more pictures would not change."""


def advice(board: Board, library: Store) -> str | None:
    """Advice if most steps that are not fixed are blank or have a weak picture; otherwise None.

    Args:
        board: the storyboard.
        library: the library.
    """
    weak = set(board.weak)
    free = [step for step in board.steps if step.origin in ("decoded", "blank") and step.blank not in SETTLED]
    blank = sum(step.blank in UNANSWERED for step in free)
    poor = sum(step.position in weak for step in free)
    if 2 * (blank + poor) <= len(free):
        return None
    counts = [f"{blank:,} left blank"] if blank else []
    if poor:
        counts.append(f"{poor:,} with a weak match (a probability below {percent(WEAK)} %)")
    if board.row is not None:
        return (
            f"Few of these pictures belong to the text: of {counted(len(free), 'step')},"
            f" {' and '.join(counts)}. What would help: --order any, if they are not in the order of the"
            " steps; --fill, which searches the rest of the library; or pinning one to its step, after which"
            " the others follow."
        )
    helps, spaces, counted_now = [], library.settings.spaces, library.counts()
    if 2 * counted_now.captioned < counted_now.pictures:
        helps.append("words for the pictures (captions in the files, or 'limner describe')")
    if board.story.language.partition("-")[0].lower() not in ("", ENGLISH):
        if "clip" in spaces and "base" not in spaces:
            helps.append(
                "the encoder base in addition to CLIP, which reads only English"
                " ('limner index --encoder base')"
            )
    elif "clip" not in spaces:
        helps.append("CLIP instead of the encoder that comes with limner ('limner models get clip')")
    helps.append("more pictures on the subject of the text")
    return (
        f"Few pictures fit: of {counted(len(free), 'step')}, {' and '.join(counts)}. What would help:"
        f" {', '.join(helps)}, or pinning a picture to a step, which also guides the other steps."
    )
