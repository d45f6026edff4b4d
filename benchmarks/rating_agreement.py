"""How far scores agree with people who rated how well captions fit photographs: Kendall's τ_c.

Makes: docs/results/limner-appendix.md (agreement with people; no ratings come with the data)

    python benchmarks/rating_agreement.py --ratings ratings.jsonl                     # the shipped encoder
    python benchmarks/rating_agreement.py --ratings ratings.jsonl --runs runs/five/*  # runs, each by itself

A line of the file is {"picture": "images/1.jpg", "text": "A dog runs .", "ratings": [3, 4, 4]}: a picture by
its file name in the captions' data set, any text, and what each judge gave it. Every judge's rating is one
observation, and texts that are captions of the picture itself are left out and counted (Hessel et al. 2021).
Pictures outside of the test part, which a run may have been trained or chosen on, are left out and counted
as well. 95 % bootstrap intervals by picture. Nothing is fitted.
"""

import argparse
from pathlib import Path

import numpy as np
from base_results import pictures_of, shown
from embeddings import data_folder
from pydantic import Field
from scipy.stats import kendalltau

from limner.encoders.base_encoder import BaseImageEncoder, BaseTextEncoder, shipped_file
from limner.encoders.catalogue import sentence_encoder
from limner.errors import DataError
from limner.files import json_rows
from limner.records import Record
from limner.research.datasets.sets.captions import CaptionedPicture, read_captions
from limner.research.evaluation.uncertainty import Interval, bootstrap, group_numbers, interval_of
from limner.research.runs.run import Run

RESAMPLES = 1000


class Rated(Record):
    """A picture and a text that people rated: a line of the file.

    Attributes:
        picture: file name in the data set.
        text: that was shown with it.
        ratings: of each judge, higher is better.
    """

    picture: str = Field(min_length=1)
    text: str = Field(min_length=1)
    ratings: tuple[float, ...] = Field(min_length=1)


def read_ratings(path: Path, pictures: dict[str, CaptionedPicture]) -> tuple[list[Rated], dict[str, int]]:
    """What counts, and how many lines are left out for which reason.

    Raises:
        DataError: a line is no rating or names an unknown picture, or nothing is left.
    """
    kept, left_out = [], {"its own caption": 0, "not of the test part": 0}
    for where, row in json_rows(path, Rated, one="rating", see="benchmarks/rating_agreement.py"):
        if row.picture not in pictures:
            raise DataError(f"{where}: no picture {row.picture!r} in the data set; give it by its file_name")
        picture = pictures[row.picture]
        if row.text.strip() in picture.captions:
            left_out["its own caption"] += 1
        elif picture.split != "test":
            left_out["not of the test part"] += 1
        else:
            kept.append(row)
    if not kept:
        raise DataError(f"{path}: no rating is left of {sum(left_out.values())}; see --help for what counts")
    return kept, left_out


def agreement(scores: np.ndarray, rated: list[Rated], resamples: int = RESAMPLES) -> Interval:
    """Kendall's τ_c between (N,) scores and all ratings of N pairs.

    Source: Stuart 1953; intervals by bootstrap over pictures.
    """
    given = np.array([rating for row in rated for rating in row.ratings])
    said = np.repeat(scores, [len(row.ratings) for row in rated])
    owner, groups = group_numbers([row.picture for row in rated for _ in row.ratings])

    def of(rows: np.ndarray) -> float:
        return float(kendalltau(said[rows], given[rows], variant="c").statistic)

    def resampled(weights: np.ndarray) -> np.ndarray:
        rows = np.arange(len(given))
        return np.array([of(np.repeat(rows, counts[owner])) for counts in weights])

    (drawn,) = bootstrap([resampled], groups, resamples=resamples)
    return interval_of(of(np.arange(len(given))), drawn, groups)


def by_base(rated: list[Rated], pictures: dict[str, CaptionedPicture]) -> np.ndarray:
    """(N,) scores of the encoder base as it is shipped, from pixels."""
    file = shipped_file("base")
    names = sorted({row.picture for row in rated})
    joint, _ = pictures_of(BaseImageEncoder("base", file), [str(pictures[name].path) for name in names])
    texts = BaseTextEncoder("base", file, sentence_encoder()).encode_text([row.text for row in rated])
    place = {name: row for row, name in enumerate(names)}
    return np.einsum("nd,nd->n", texts, joint[[place[row.picture] for row in rated]])


def by_run(
    folder: Path, weights: Path | None, rated: list[Rated], pictures: dict[str, CaptionedPicture]
) -> tuple[str, np.ndarray]:
    """Name of a run, and (N,) scores of its model; each text is read by itself."""
    run = Run.open(folder)
    data, stored = run.data(weights=weights)
    ids = {Path(pair.image): pair.image_id for pair in data.pairs}
    names = sorted({row.picture for row in rated})
    seen = run.model.encode_image(stored.take(stored.places([ids[pictures[name].path] for name in names])))
    if run.stories:
        texts = np.concatenate(run.model.encode_stories([[row.text] for row in rated]))
    else:
        texts = run.model.encode_text([row.text for row in rated])
    place = {name: row for row, name in enumerate(names)}
    columns = np.array([place[row.picture] for row in rated])
    block = run.model.score(texts, seen)
    return run.name, block[np.arange(len(rated)), columns].astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=Path, required=True, help="file of ratings, see above")
    parser.add_argument(
        "--captions", type=Path, help="folder of captions.jsonl; default: flickr8k of the data"
    )
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="folders of runs")
    parser.add_argument("--weights", type=Path, help="folder of weights of further encoders")
    options = parser.parse_args()
    known = {one.name: one for one in read_captions(options.captions or data_folder() / "flickr8k")}
    rated, left_out = read_ratings(options.ratings, known)
    print(f"{len(rated):,} pairs, {sum(len(row.ratings) for row in rated):,} ratings; left out: ", end="")
    print(", ".join(f"{count:,} ({why})" for why, count in left_out.items()))
    print("\n| | τ_c |\n|---|---|")
    rows = [by_run(folder, options.weights, rated, known) for folder in options.runs]
    for name, scores in rows or [("base", by_base(rated, known))]:
        found = agreement(scores, rated)
        print(f"| {name} | {shown(found, 1, 3)} |", flush=True)


if __name__ == "__main__":
    main()
