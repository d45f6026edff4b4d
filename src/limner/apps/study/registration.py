"""What is decided before the first vote: settings, default words for raters, and the planned analysis.

The analysis is written down as sentences that name the rules `limner.evaluation` follows. It computes nothing
from votes and writes no file.
"""

from pydantic import Field

from limner.data.records import Record
from limner.data.studies import Protocol
from limner.evaluation.study_majority import LEAST_VOTES
from limner.evaluation.study_statistics import detectable_effect

QUESTIONS: dict[Protocol, str] = {
    "pairwise": "Which picture fits the text better?",
    "tick-all": "Tick every picture that is appropriate for its step; tick none where none is.",
}
CONSENT = (
    "You will see texts with pictures and say which pictures fit. There are no right or wrong opinions; some"
    " items ask for one certain answer, to check that texts are read. Your answers, the time they take and a"
    " random number are stored, nothing else about you. You may stop at any time and come back later."
)


class StudySettings(Record):
    """How a study is done.

    Attributes:
        protocol: pairwise or tick-all.
        title: shown to raters.
        question: what raters are asked.
        consent: what they agree to.
        hypotheses: one sentence each; the usual one unless given.
        size: drawn per stratum; None draws all.
        seed: of the draw and of all orders.
        raters: votes wanted per item.
        checks: attention checks per item or sequence that is none.
        level: of the tests.
        power: of the sensitivity.
    """

    protocol: Protocol
    title: str = Field(default="Texts and pictures", min_length=1)
    question: str = Field(min_length=1)
    consent: str = Field(default=CONSENT, min_length=1)
    hypotheses: tuple[str, ...] = ()
    size: int | None = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)
    raters: int = Field(default=3, ge=1, le=100)
    checks: float = Field(default=0.1, ge=0, le=1)
    level: float = Field(default=0.05, gt=0, lt=0.5)
    power: float = Field(default=0.95, ge=0.5, lt=1)


def hypotheses_of(protocol: Protocol) -> tuple[str, ...]:
    """The hypothesis of the published study, by letters."""
    if protocol == "pairwise":
        return ("In each stratum the picture of A is preferred to that of B more often than the other way.",)
    return ("The picture of B is ticked without that of C in more steps than the other way round.",)


def planned_analysis(settings: StudySettings, items: int, strata: int) -> tuple[str, ...]:
    """The analysis as sentences.

    Args:
        settings: of the study.
        items: judged, attention checks left out.
        strata: their number.
    """
    least = min(LEAST_VOTES, settings.raters)
    level, power = f"{settings.level:g}", f"{settings.power:g}"
    effect = detectable_effect(items, settings.level, settings.power)
    scored = (
        "An item scores +1 where its majority prefers A, -1 where it prefers B, 0 else; pairs of one and the"
        " same picture are shown to nobody and count as answered 'same'."
        if settings.protocol == "pairwise"
        else "A step scores +1 where more than half of its raters tick the picture of B and not that of C,"
        " each by itself, -1 the other way round, 0 else; a tick of a picture that systems share counts for"
        " each."
    )
    return (
        f"An answer is an item's majority where more than half of its votes give it; items with fewer than"
        f" {least} votes are left out and counted.",
        scored,
        f"Exact two-sided sign test and one-sample t-test of the scores against 0 at level {level}"
        + (f", p values by Holm's correction over {strata} strata." if strata > 1 else "."),
        f"Effect: mean over standard deviation, with its interval by the noncentral t distribution."
        f" All {items} items together see one of {effect:.3f} with power {power} (normal approximation).",
        "Agreement: Fleiss' kappa over items with the commonest number of votes, and Krippendorff's alpha for"
        " nominal answers.",
        "A rater fails who answers any attention check wrongly; everything is reported with all raters, and"
        " again without those who failed.",
    )
