"""How far a study is, without a word about what raters prefer.

Whoever looks at outcomes before the end is tempted to stop when they please; so only counts are told here.
"""

from collections import Counter
from collections.abc import Iterable

from limner.data.records import Record
from limner.data.studies import StudyFiles, Vote, check_votes
from limner.evaluation.study_majority import checked


class StudyProgress(Record):
    """Counts of a running study.

    Attributes:
        title, protocol: as registered.
        items: to be judged, without attention checks and pre-filled pairs.
        prefilled: pairs of one picture, which nobody is shown.
        checks: attention checks.
        raters_per_item: as registered.
        raters: who voted.
        votes: on items to be judged.
        due: votes wanted on them.
        complete: items with all votes.
        untouched: items without a vote.
        failed: raters who failed an attention check.
    """

    title: str
    protocol: str
    items: int
    prefilled: int
    checks: int
    raters_per_item: int
    raters: int
    votes: int
    due: int
    complete: int
    untouched: int
    failed: int

    def lines(self) -> list[str]:
        """For the terminal."""
        return [
            f"{self.title} ({self.protocol}): {self.votes:,} of {self.due:,} votes by {self.raters:,} raters",
            f"{self.complete:,} of {self.items:,} items have {self.raters_per_item} votes or more,"
            f" {self.untouched:,} none; {self.prefilled:,} pairs of one picture are pre-filled",
            f"{self.failed:,} raters failed one of {self.checks:,} attention checks",
        ]


def progress_of(files: StudyFiles, votes: Iterable[Vote]) -> StudyProgress:
    """Count.

    Raises:
        DataError: a vote that does not fit its item, or two of one rater on one item.
    """
    study = files.study
    cast = check_votes(votes, files.items, study.protocol)
    judged = [
        item.id for item in files.items if not item.prefilled and files.key.items[item.id].right is None
    ]
    counts = Counter(vote.item for vote in cast)
    return StudyProgress(
        title=study.title,
        protocol=study.protocol,
        items=len(judged),
        prefilled=study.prefilled,
        checks=study.checks,
        raters_per_item=study.raters_per_item,
        raters=len({vote.rater for vote in cast}),
        votes=sum(counts[name] for name in judged),
        due=len(judged) * study.raters_per_item,
        complete=sum(counts[name] >= study.raters_per_item for name in judged),
        untouched=sum(not counts[name] for name in judged),
        failed=len(checked(files, cast).failed),
    )
