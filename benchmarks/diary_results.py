"""Diaries and year reports whose words say when and where, over photographs with times and coordinates.

Makes: docs/results/ordinary.md (when and where)

Twelve texts in four languages (`ordinary/diaries.toml`), each in a library of 1,000 photographs of a year,
of which some were taken on its days and at its places; and with a folder of its days named. Every text is
illustrated twice, with what it says of when and where and without, beside plain search of each step alone.

    python benchmarks/diary_results.py --cache vectors
"""

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from embeddings import CachedText, encoders, parser
from ordinary.boards import Desk, JobIllustrator
from ordinary.measures import calibrated
from ordinary.pictures import Words, supply
from ordinary.rows import RowJob
from ordinary.texts import random

from limner.encoders.catalogue import MULTILINGUAL, text_encoder
from limner.match.illustrate import BoardOptions, step_texts
from limner.match.when_where import WhenWhere
from limner.records import Caption, Picture, Step, Story
from limner.text.dates import DAY, Said, said_in

SIZE = 1000
SAME_DAY = 3
"""Other photographs of each day of a text, at its place."""
CASES = ("as taken", "no coordinates", "no times", "a year off", "phone without fix", "captions exchanged")
LAYOUTS = ("a folder a month", "own folder", "named")
OWN = "/library/own"


class Diary:
    """A text with its photographs.

    Attributes:
        story: the text.
        own: id of each step's photograph.
        taken: id → time of taking and place, of the text's own photographs.
    """

    def __init__(self, number: int, told: dict) -> None:
        title, steps, self.own, self.taken = "", [], [], {}
        for place, (heading, text, picture, day, where) in enumerate(told["steps"]):
            title = heading or title
            steps.append(Step(text=text, title=title))
            self.own.append(picture)
            self.taken[picture] = datetime.fromisoformat(day) + timedelta(hours=10, minutes=7 * place), where
        self.language = told["language"]
        self.story = Story(id=f"diary-{number}", title=told["title"], steps=steps, language=self.language)


def a_year(ids: Sequence[str], diary: Diary, places: Sequence[str]) -> dict[str, tuple[datetime, str]]:
    """When and where the other photographs were taken: some beside the text's own, the rest on outings."""
    rng = random("a year", diary.story.id)
    rest = [ids[at] for at in rng.permutation(len(ids)).tolist()]
    taken: dict[str, tuple[datetime, str]] = {}
    for moment, where in sorted({(when.date(), where) for when, where in diary.taken.values()}):
        for _ in range(SAME_DAY):
            hour = timedelta(hours=float(rng.uniform(9, 20)))
            taken[rest.pop()] = datetime.combine(moment, datetime.min.time()) + hour, where
    home = max(places, key=lambda one: random("home", diary.story.id, one).random())
    while rest:
        start = datetime(2024, 1, 1) + timedelta(
            days=int(rng.integers(0, 366)), hours=float(rng.uniform(8, 17))
        )
        where = home if rng.random() < 0.5 else places[int(rng.integers(0, len(places)))]
        for at in range(min(int(rng.integers(3, 15)), len(rest))):
            taken[rest.pop()] = start + timedelta(minutes=5 * at), where
    return taken


class Bench:
    """The photographs, and the encoders."""

    def __init__(self, options: argparse.Namespace) -> None:
        encoded = encoders(options, ["base"])
        self.stock = supply(encoded[0], tuple(encoded[1]), options.cache)
        self.others = [CachedText(text_encoder(MULTILINGUAL), options.cache)]
        self.desk = Desk(encoded, options.cache)
        self.pool = self.stock.photographs("report")
        told = tomllib.loads(Path(__file__).with_name("ordinary").joinpath("diaries.toml").read_text("utf-8"))
        self.places: dict[str, tuple[float, float]] = {one: tuple(at) for one, at in told["places"].items()}
        self.diaries = [Diary(number, one) for number, one in enumerate(told["diary"])]

    def job(self, diary: Diary, words: Words, case: str, layout: str) -> tuple[RowJob, dict]:
        """A text with a library, and the coordinates of its photographs."""
        ids = self.pool.ids[:SIZE] if len(self.pool.ids) >= SIZE else self.pool.ids
        others = [one for one in ids if one not in diary.taken]
        taken = a_year(others, diary, list(self.places)) | diary.taken
        days = {when.date() for when, _ in diary.taken.values()}
        beside = [one for one in others if taken[one][0].date() in days]
        exchanged = dict(zip(diary.own, [*diary.own[1:], diary.own[0]], strict=True))
        look_up = self.pool.records(words)

        def records(wanted: Sequence[str]) -> list[Picture]:
            made = []
            for record in look_up(wanted):
                when, _ = taken[record.id]
                off = case == "a year off" and record.id in diary.taken
                folder = f"/library/{when:%Y-%m}"
                if layout != "a folder a month" and (
                    record.id in diary.taken or (record.id in beside and layout == "named")
                ):
                    folder = OWN
                changed: dict = {
                    "paths": (f"{folder}/IMG_{when:%Y%m%d_%H%M%S}_{record.id[7:13]}.jpg",),
                    "taken": None if case == "no times" else when.replace(year=2023) if off else when,
                    "taken_from": "" if case == "no times" else "camera",
                }
                if case == "captions exchanged" and record.id in exchanged and record.captions:
                    text = look_up([exchanged[record.id]])[0].captions[0].text
                    changed["captions"] = (Caption(text=text, source="sidecar"),)
                made.append(record.model_copy(update=changed))
            return made

        gallery = self.pool.gallery(
            list(ids), words, self.stock.text, self.others if words == "shown" else ()
        )
        if case == "captions exchanged" and words == "shown":
            rows, sources = gallery.rows(list(exchanged)), gallery.rows(list(exchanged.values()))
            for name in ("captions", "multilingual"):
                space = gallery.space(name)
                space.matrix[rows] = space.matrix[sources]
        unknown = case == "no coordinates"
        located = {
            one: self.places[where]
            for one, (_, where) in taken.items()
            if not unknown and not (case == "phone without fix" and one in diary.taken)
        }
        own = tuple(frozenset((one,)) for one in diary.own)
        group = dict(zip(gallery.ids, gallery.groups, strict=True))
        fits = tuple(frozenset(one for one in ids if group[one] == group[picture]) for picture in diary.own)
        job = RowJob(
            kind="diary", words=words, size=len(ids), part="report", gallery=gallery, records=records,
            story=diary.story, own=own, fits=fits, lacks=("",) * len(own), layout=layout,
            named=OWN if layout == "named" else "", photographs=tuple(diary.own),
        )  # fmt: skip
        return job, located | {"taken": taken}


class Silent(JobIllustrator):
    """An illustrator that does not read when and where."""

    def _stated(self, *_: object) -> WhenWhere | None:
        return None


def names_day(chain: Sequence[Said], day: int) -> bool:
    """Whether what a step or its heading names is the day of its photograph."""
    dates = next((one.dates for one in chain if one.dates), ())
    return any(one.fineness == DAY and one.holds(np.array([day]))[0] for one in dates)


def percent(values: Sequence[bool]) -> str:
    return f"{100 * float(np.mean(values)):.1f}" if len(values) else "–"


def main() -> None:
    """Print the table."""
    made = parser(__doc__)
    made.add_argument("--cases", nargs="*", default=list(CASES))
    made.add_argument("--layouts", nargs="*", default=list(LAYOUTS))
    made.add_argument("--words", nargs="*", default=["shown", "hidden"])
    made.add_argument("--show", default="usual", help="option of the storyboard")
    options = made.parse_args()
    bench = Bench(options)
    heads = ["words", "library", "case", "steps", "own day: plain search", "without", "with"]
    heads += ["own: plain search", "without", "with", "chance, without", "with"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for words in options.words:
        for layout in options.layouts:
            for case in options.cases:
                print(cell(bench, words, layout, case, options.show), flush=True)


def cell(bench: Bench, words: Words, layout: str, case: str, show: str) -> str:
    found: dict[str, list] = defaultdict(list)
    for diary in bench.diaries:
        if words == "hidden" and diary.language != "en":
            continue
        job, located = bench.job(diary, words, case, layout)
        taken = located.pop("taken")
        steps = len(diary.own)
        said = said_in(diary.story, [diary.language] * steps)
        pairs = zip(said, diary.own, strict=True)
        named = [names_day(chain, int(f"{taken[own][0]:%Y%m%d}")) for chain, own in pairs]
        stated = [any(one.dates or one.names for one in chain) for chain in said]
        chosen: dict[str, list[str | None]] = {}
        for name, kind in (("without", Silent), ("with", JobIllustrator)):
            illustrator = kind(job, bench.desk, located)
            given = BoardOptions(named=(job.named,) if job.named else (), show=show)
            board = illustrator.board(job.story, given)
            chosen[name] = [None if step.picture is None else step.picture.id for step in board.steps]
            found[f"chance {name}"] += [
                (step.probability, picture in fits)
                for step, picture, fits, told in zip(board.steps, chosen[name], job.fits, stated, strict=True)
                if told and picture is not None and step.probability is not None
            ]
            if name == "with":
                chosen["plain"] = illustrator.alone(step_texts(diary.story))
        for name, pictures in chosen.items():
            own = zip(pictures, job.own, strict=True)
            found[f"own {name}"] += [picture in right for picture, right in own]
            found[f"day {name}"] += [
                picture is not None and taken[picture][0].date() == taken[right][0].date()
                for picture, right, told in zip(pictures, diary.own, named, strict=True)
                if told
            ]
    values = [
        percent(found[f"{what} {name}"]) for what in ("day", "own") for name in ("plain", "without", "with")
    ]
    for name in ("without", "with"):
        pairs = np.array(found[f"chance {name}"], dtype=np.float64).reshape(-1, 2)
        error = calibrated([(a, bool(b)) for a, b in found[f"chance {name}"]]).error
        values.append(
            f"{pairs[:, 0].mean():.2f} / {pairs[:, 1].mean():.2f} ({error or 0:.2f})" if len(pairs) else "–"
        )
    return f"| {words} | {layout} | {case} | {len(found['own with'])} | {' | '.join(values)} |"


if __name__ == "__main__":
    main()
