"""Why a picture was chosen, in words and small numbers.

All formats draw on the same sentences: the page as bars, slides as notes, Markdown and PDF as
text. It words what the storyboard holds and computes nothing new about the pictures.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from limner.apps.export.characters import carried
from limner.apps.export.credits import file_name
from limner.apps.export.predictions import Relation, holding, most_attended
from limner.data.storyboards import BoardStep, Candidate

CHANNELS = {
    "captions": "words of the picture",
    "multilingual": "words of the picture across languages",
    "labels": "things seen in it",
    "base": "text and picture compared",
    "clip": "text and picture compared by CLIP",
    "model": "the trained model",
    "relation": "the relation asked for",
}
PULL = "neighbouring pictures"
ORIGINS = {
    "decoded": "Chosen from the library",
    "pinned": "Pinned by hand",
    "given": "Given by the text",
    "blank": "Left blank",
}


@dataclass(frozen=True)
class Share:
    """One part of a picture's evidence.

    Attributes:
        name: in words.
        nats: the part, signed.
        extent: |nats| as a fraction of the largest part, 0 to 1.
    """

    name: str
    nats: float
    extent: float


@dataclass(frozen=True)
class Explanation:
    """Why a step shows what it shows.

    Attributes:
        origin: who decided, in words.
        reason: the storyboard's own sentence.
        shares: parts of the evidence, channels first, then the pull of the neighbours.
        total: their sum in nats; None without a choice.
        matched: words of the text met in the picture's words.
        probability: sentence on the calibrated probability, or "".
        rivalry: sentence on the runner-up and the gap, or "".
        relations: that a trained model predicts between text and picture, the likeliest first.
        attended: words of the text that it looked at most.
    """

    origin: str
    reason: str
    shares: tuple[Share, ...]
    total: float | None
    matched: tuple[str, ...]
    probability: str
    rivalry: str
    relations: tuple[Relation, ...] = ()
    attended: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The whole explanation as plain sentences, one per line."""
        said = [f"{self.origin}. {self.reason}".strip()]
        if self.shares and self.total is not None:
            parts = ", ".join(f"{share.name} {signed(share.nats)}" for share in self.shares)
            said.append(f"Evidence: {parts}; together {signed(self.total)} nats.")
        if self.matched:
            said.append(f"Words met: {', '.join(self.matched)}.")
        said += [line for line in (self.probability, self.rivalry) if line]
        if self.relations:
            parts = " ".join(f"{one.sentence[:-1]} ({one.percent} %)." for one in self.relations)
            said.append(f"As the model sees it: {parts}")
        if self.attended:
            said.append(f"Words the model looked at most: {', '.join(self.attended)}.")
        return tuple(said)


def explain(step: BoardStep) -> Explanation:
    """Put one step's decision into words.

    Args:
        step: the step.
    """
    chosen = step.chosen
    shares = () if chosen is None else shares_of(chosen, step.silent)
    return Explanation(
        origin=ORIGINS[step.origin],
        reason=" ".join(step.reason.split()),
        shares=shares,
        total=None if chosen is None else chosen.score + chosen.pull,
        matched=() if chosen is None else chosen.matched,
        probability=""
        if step.probability is None
        else _probability(step.probability, shown=chosen is not None),
        rivalry=_rivalry(step),
        relations=holding(step),
        attended=most_attended(step),
    )


def shares_of(candidate: Candidate, silent: Collection[str] = ()) -> tuple[Share, ...]:
    """Parts of a candidate's evidence, with the pull of its neighbours where there is any.

    Args:
        candidate: the picture.
        silent: channels that say nothing for the step; their parts are left out.
    """
    told = {name: value for name, value in candidate.channels.items() if name not in silent}
    parts = [(CHANNELS.get(name, name), value) for name, value in told.items()]
    if candidate.pull:
        parts.append((PULL, candidate.pull))
    largest = max((abs(value) for _, value in parts if math.isfinite(value)), default=0.0)
    return tuple(
        Share(name, value, min(1.0, abs(value) / largest) if largest else 0.0) for name, value in parts
    )


def signed(nats: float) -> str:
    """A number of nats with its sign, two decimals, and a true minus."""
    rounded = round(nats, 2)
    return "0.00" if rounded == 0 else f"{'+' if rounded > 0 else '−'}{abs(rounded):.2f}"


def highlighted(text: str, words: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """The text in pieces, True where a piece is one of the words.

    Whole words only, whatever their case; joined, the pieces are the text.

    Args:
        text: any text.
        words: words or phrases to find.
    """
    wanted = sorted({word for word in words if word.strip()}, key=len, reverse=True)
    if not wanted:
        return ((text, False),) if text else ()
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})(?!\w)", re.IGNORECASE)
    pieces: list[tuple[str, bool]] = []
    end = 0
    for found in pattern.finditer(text):
        if found.start() > end:
            pieces.append((text[end : found.start()], False))
        pieces.append((found.group(), True))
        end = found.end()
    if end < len(text):
        pieces.append((text[end:], False))
    return tuple(pieces)


def paragraphs(text: str) -> tuple[str, ...]:
    """Paragraphs of a step's text: cut at empty lines, inner line ends kept, control characters as U+FFFD."""
    blocks = re.split(r"\n[^\S\n]*\n", re.sub(r"\r\n?|[\u2028\u2029]", "\n", carried(text)))
    kept = tuple(
        "\n".join(line.strip() for line in block.strip().split("\n")) for block in blocks if block.strip()
    )
    return kept or (text.strip(),)


def _probability(value: float, *, shown: bool) -> str:
    percent = "under 1" if value < 0.01 else "over 99" if value > 0.99 else f"{value * 100:.0f}"
    which = "This picture fits" if shown else "The best picture would fit"
    return f"{which} with a probability of {percent} %."


def _rivalry(step: BoardStep) -> str:
    if step.chosen is None or not step.runners_up:
        return ""
    rival = file_name(step.runners_up[0].picture)
    if step.gap is None:
        return f"Runner-up: {rival}."
    if abs(step.gap) < 0.005:
        return f"Runner-up: {rival}, level with it."
    odds = math.exp(min(abs(step.gap), 20.0))
    ratio = "far more than 1000" if odds > 1000 else f"{odds:.0f}" if odds >= 10 else f"{odds:.1f}"
    side = "behind" if step.gap > 0 else "ahead"
    return f"Runner-up: {rival}, {abs(step.gap):.2f} nats {side} (odds {ratio} to 1)."
