"""Why each step of a storyboard shows what it shows, in numbers and in one plain sentence.

It reads what the search and the decoder computed. It changes no choice.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from limner.records import Blank, BoardStep, Candidate, Picture
from limner.storyboard.calibration import Chances
from limner.storyboard.candidates import Pool
from limner.storyboard.lattice import BLANK, Float64Array, IntArray

_FUNCTION_WORDS = """
the and but for nor not you your yours his her hers its our ours their theirs this that these those with from
into onto over under than then there here when where which who whom whose what why how are was were been being
has have had having does did doing will would shall should can could may might must she him they them some any
all each every both few more most other such only own same too very just also about again once because while
until after before above below between during out off one two said got get let
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that match everywhere and explain nothing."""


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Words in order, folded to lower case and composed form; numbers and signs are dropped."""
    folded = unicodedata.normalize("NFC", text.casefold())
    runs = groupby(folded, key=lambda sign: unicodedata.category(sign)[0] in "LM")
    return tuple("".join(run) for letters, run in runs if letters)


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Drop a common English ending: ``kites`` → ``kite``, ``running`` → ``run``."""
    if not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) > 2 and any(vowel in base for vowel in "aeiouy"):
            doubled = base[-1] == base[-2] and base[-1] not in "aeiouls"
            return base[:-1] if doubled else base.removesuffix("e")
    for ending in ("sses", "shes", "ches", "xes"):
        if word.endswith(ending):
            return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def matched(text: str, others: Iterable[str]) -> tuple[str, ...]:
    """Words of a text whose stem occurs in the other texts, in the text's order, each once.

    Args:
        text: the step.
        others: captions or class names.
    """
    known = {stem(word) for other in others for word in words(other)}
    found: dict[str, str] = {}
    for word in words(text):
        telling = word not in FUNCTION_WORDS and (len(word) > 2 or not word.isascii())
        if telling and stem(word) in known:
            found.setdefault(stem(word), word)
    return tuple(found.values())


NOTICEABLE = 0.05
"""Nats of a pairwise term worth a word."""

TELLING = 0.5
"""Nats by which a channel must lift its best candidate above its median one to say anything."""

EQUAL, LITTLE, MUCH = 0.1, 1.0, 3.0
"""Nats of a gap: below the first, two are about equal; below the second, close; from the last, far apart."""

CREDIBLE = 0.05
"""Probability from which a class label is quoted as a match."""

PLAIN = {
    "base": "what the picture shows",
    "model": "the trained model",
    "multilingual": "what its words mean",
    "relation": "the relation asked for",
}
"""Channels that a sentence does not name as channels."""

WORDED = {"captions", "multilingual", "labels"}
"""Channels that compare a step with words; of others, no word is the reason."""


@dataclass(frozen=True)
class Considered:
    """What there is to explain; C candidates, S steps, K columns.

    Attributes:
        texts: S texts as searched.
        ids: C picture ids.
        pool: the candidates and their scores.
        pairwise: (S, K) nats the other steps add, all else fixed.
        columns: (S,) chosen columns or `BLANK`.
        chances: that candidates fit; None without a calibration.
        ruled_out: (S,) whether a picture that the user banned would have fitted.
        pinned: steps the user fixed.
        given: steps the text itself illustrates.
        held: steps that stay as they are and were not chosen for this time.
        allow_repeats: whether runners-up may be used elsewhere.
        runners_up: how many to name.
    """

    texts: Sequence[str]
    ids: Sequence[str]
    pool: Pool
    pairwise: Float64Array
    columns: IntArray
    chances: Chances | None
    ruled_out: NDArray[np.bool_]
    pinned: frozenset[int]
    given: frozenset[int]
    held: frozenset[int]
    allow_repeats: bool
    runners_up: int

    def others(self, step: int) -> list[int]:
        """Columns the step could show instead, best first, one of each near-duplicate group."""
        groups, items = self.pool.groups, self.pool.items
        taken = {
            int(groups[items[s, column]])
            for s, column in enumerate(self.columns)
            if column != BLANK and (s == step or not self.allow_repeats)
        }
        total = self.pool.unary[step] + self.pairwise[step]
        found: list[int] = []
        for column in np.argsort(-total, kind="stable"):
            if len(found) == self.runners_up or total[column] == -np.inf:
                break
            group = int(groups[items[step, column]])
            if group not in taken:
                taken.add(group)
                found.append(int(column))
        return found


def explain(board: Considered, pictures: Callable[[Sequence[str]], list[Picture]]) -> tuple[BoardStep, ...]:
    """One explained step per step of the story.

    Args:
        board: what was found and chosen.
        pictures: ids → records in the same order; called once.
    """
    columns = [
        [*([int(column)] if column != BLANK else []), *board.others(s)]
        for s, column in enumerate(board.columns)
    ]
    ids = [[board.ids[board.pool.items[s, column]] for column in own] for s, own in enumerate(columns)]
    wanted = list(dict.fromkeys(chain.from_iterable(ids)))
    records = dict(zip(wanted, pictures(wanted), strict=True))
    return tuple(
        _step(board, s, [_candidate(board, s, column, records) for column in own])
        for s, own in enumerate(columns)
    )


def _step(board: Considered, s: int, found: list[Candidate]) -> BoardStep:
    """A step from its candidates: the chosen one, unless it is blank, and the runners-up."""
    column = None if board.columns[s] == BLANK else int(board.columns[s])
    chosen, others = (None, found) if column is None else (found[0], found[1:])
    gap = None if chosen is None or not others else _total(chosen) - _total(others[0])
    silent = _silent(board, s)
    fixed = s in board.pinned or s in board.given
    probability = None if board.chances is None or fixed else board.chances.probability(s, column)
    blank: Blank | None = None
    origin: Literal["decoded", "pinned", "given", "blank"] = "decoded"
    if chosen is None and s in board.pinned:
        origin, blank, reason = "blank", "asked for", "No picture here, as you asked."
    elif s in board.pinned:
        origin, reason = "pinned", "You fixed this picture here."
    elif s in board.given:
        origin, reason = "given", "The text itself shows this picture here."
    elif chosen is None:
        origin, (blank, reason) = "blank", _why_blank(board, s, probability)
    else:
        reason = _why(board, s, chosen, gap, silent)
    return BoardStep(
        position=s,
        chosen=chosen,
        origin=origin,
        reason=reason,
        blank=blank,
        probability=probability,
        gap=gap,
        runners_up=tuple(others),
        silent=silent,
    )


def _silent(board: Considered, s: int) -> tuple[str, ...]:
    """Channels whose evidence hardly differs between the candidates of a step."""
    own = np.unique(board.pool.items[s][board.pool.unary[s] > -np.inf])
    scored, found = board.pool.scored, []
    for name, share in scored.shares.items():
        nats = share[s, own[scored.present[name][own]]]
        if len(nats) > 1 and nats.max() - np.median(nats) < TELLING:
            found.append(name)
    return tuple(found)


def _candidate(board: Considered, s: int, column: int, records: dict[str, Picture]) -> Candidate:
    number = int(board.pool.items[s, column])
    picture, scored = records[board.ids[number]], board.pool.scored
    channels = {
        name: float(share[s, number])
        for name, share in scored.shares.items()
        if scored.present[name][number] and share[s].any()
    }
    return Candidate(
        picture=picture,
        score=float(board.pool.unary[s, column]),
        channels=channels,
        pairwise=float(board.pairwise[s, column]),
        probability=None if board.chances is None else board.chances.probability(s, column),
        matched=matched(board.texts[s], chain(*_words_of(picture, channels))),
    )


def _total(candidate: Candidate) -> float:
    return candidate.score + candidate.pairwise


def _words_of(picture: Picture, channels: Iterable[str]) -> tuple[list[str], list[str]]:
    """Captions and credible labels, where a channel compared words: what nothing looked at is no reason."""
    if not WORDED & set(channels):
        return [], []
    labels = [name for name, probability in picture.labels if probability >= CREDIBLE]
    return [caption.text for caption in picture.captions], labels


def _why(board: Considered, s: int, chosen: Candidate, gap: float | None, silent: tuple[str, ...]) -> str:
    """A sentence such as: Caption words “kite”, “beach” match; the runner-up is a little weaker."""
    found = _words_of(chosen.picture, chosen.channels)
    in_captions, in_labels = (matched(board.texts[s], words) for words in found)
    parts = [f"caption {_quoted(in_captions)}"] if in_captions else []
    if in_labels:
        parts.append(f"label {_quoted(in_labels)}")
    telling = {name: share for name, share in chosen.channels.items() if name not in silent}
    strongest = max(telling, key=telling.__getitem__, default=None)
    if not parts:
        if not chosen.channels:
            parts.append("no words or vectors describe it, but every other picture matches less")
        elif strongest is None:
            parts.append("all pictures match this step about equally")
        elif telling[strongest] > 0:
            named = PLAIN.get(strongest, f"the channel {strongest}")
            parts.append(f"the best evidence is {named}")
        else:
            better = s in board.held and gap is not None and gap < 0
            parts.append(
                f"it does not match well{'' if better else ', but every other picture matches less'}"
            )
    if chosen.pairwise > NOTICEABLE:
        parts.append("it looks like the pictures of the other steps")
    elif chosen.pairwise < -NOTICEABLE:
        parts.append("it does not look like the pictures of the other steps")
    if gap is not None:
        whole = "" if gap >= 0 or s in board.held else " here, but weaker for the text as a whole"
        parts.append(f"the runner-up is {_compared(gap)}{whole}")
    sentence = "; ".join(parts) + "."
    return sentence[0].upper() + sentence[1:]


def _compared(gap: float) -> str:
    """How a runner-up stands to the choice, by nats that the choice is ahead."""
    size = abs(gap)
    if size < EQUAL:
        return "about as strong"
    return ("a little " if size < LITTLE else "much " if size >= MUCH else "") + (
        "weaker" if gap > 0 else "stronger"
    )


def _quoted(found: tuple[str, ...]) -> str:
    """Up to five words in quotation marks, with their verb."""
    listed = ", ".join(f"“{word}”" for word in found[:5])
    return f"word {listed} matches" if len(found) == 1 else f"words {listed} match"


def _why_blank(board: Considered, s: int, probability: float | None) -> tuple[Blank, str]:
    """Which of three: all that fits was ruled out, nothing fits, or all that fits is shown elsewhere."""
    if board.ruled_out[s]:
        return "ruled out", "You ruled out the pictures that fit this step."
    if not len(board.ids):
        return "nothing fits", "The library holds no picture that may be shown."
    if not (board.pool.unary[s] > -np.inf).any():
        return "nothing fits", "No picture in the library can be compared with this step."
    if board.chances is not None and probability is not None and probability < board.chances.threshold:
        return "nothing fits", (
            f"Nothing in the library fits well enough: the best picture has a chance of {probability:.2f},"
            f" the threshold is {board.chances.threshold:.2f}."
        )
    return "all used", "All pictures that fit this step are shown at other steps."
