"""``limner figure``: the papers' figures from measured runs, with the published curves.

This module parses options; `limner.research.paper.published_figures` draws.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.main import say


def figure(
    name: str,
    *,
    to: Path,
    runs: Path | None = None,
    run: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    text: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    picture: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    relation: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    weights: Path | None = None,
    data: str | None = None,
    split: str | None = None,
    row: str | None = None,
    count: int | None = None,
    resamples: int | None = None,
) -> None:
    """Reproduce a figure of a paper from measured runs.

    Example: limner figure cmcm-5 --runs runs --to figure5.pdf

    Parameters
    ----------
    name
        cmcm-1 (the top picture of each run for a text), cmcm-3a (confidence curves), cmcm-3b (rank
        against gap, on validation), cmcm-4 (a page of annotated pairs), cmcm-5 (plain and refined),
        cmcm-6 (galleries), cmcm-7 (attention, runs side by side), cmcm-8 and cmcm-8-length (curves
        over λ and text length), cmcm-9 (a gallery with one text of every relation: the paper's
        Figures 9 and 10), cmcm-entropy (rank of every CMCM_c against the entropy of its relation),
        complementary-scores (histograms of both measures), complementary-agreement (one measure
        against the other), complementary-weights (spread, entropy and drift of the weights by epoch),
        complementary-variance (the gain of each measure on every data set against the deviation of
        its scores), complementary-3 (a page of what runs find for texts, words and pictures),
        complementary-4 (a page of the pairs with the largest and smallest weights), vrss-attention
        (how the steps of test stories attend to each other), vrss-features (t-SNE of the features by
        which runs represent the test pictures), vrss-galleries (a page of steps for which one run is
        better, the other, or neither), gsda-3 (a page of test stories with the picture of every run
        for each sentence) or gsda-strips (the same for validation stories).
    to
        File to write: .pdf, .png or .svg; .html for cmcm-4, complementary-3, complementary-4,
        vrss-galleries, gsda-3 and gsda-strips.
    runs
        Folder with measured runs (cmcm-5, cmcm-8, cmcm-entropy, complementary-variance).
    run
        One run (cmcm-3b, complementary-…, vrss-attention), or the runs to compare (cmcm-1, cmcm-6, cmcm-7,
        cmcm-9, complementary-3, vrss-features; two for vrss-galleries; for gsda-3 and gsda-strips in the
        order of the page's rows); repeatable. For runs with refinement, galleries show the refined results.
    text
        Text to show (cmcm-7), id of a pair (cmcm-1, cmcm-6, cmcm-9), either (complementary-3), or name of a
        test story (vrss-attention, gsda-3) or validation story (gsda-strips); repeatable. Default: the first
        ones of the run; for gsda-3 and gsda-strips, evenly spread ones.
    picture
        Id of a test pair whose picture is a query (complementary-3); repeatable.
    relation
        Relation of the texts shown (cmcm-1, cmcm-4, cmcm-6, cmcm-9); repeatable, for texts of each one.
    weights
        Weights of the backbone, if features must still be computed (complementary-3, vrss-features).
    data
        Data set of the results. Default: the one that was measured; of several, clue, else cite++. Of
        cmcm-4, the set to show. Default: clue.
    split
        Split of that data set. Default: the one that was measured; of several, the released one, which the
        published runs use.
    row
        Table row whose runs the curves show (cmcm-8, cmcm-8-length). Default: CMCM.
    count
        Number of texts or stories shown if none is named; of pairs per relation (cmcm-4) or at either
        end (complementary-4); of steps per group (vrss-galleries); of stories with their own colour
        (vrss-features). Default: 4.
    resamples
        Bootstrap resamples for every interval. Default: 10,000.
    """
    from limner.research.paper.published_figures import draw_figure

    options = {
        "runs": runs, "run": run, "text": text, "picture": picture, "relation": relation, "weights": weights,
        "data": data, "split": split, "row": row, "count": count, "resamples": resamples,
    }  # fmt: skip
    draw_figure(
        name,
        to,
        runs=runs,
        run=run,
        texts=text,
        pictures=picture,
        relations=relation,
        weights=weights,
        data=data,
        split=split,
        row=row or "CMCM",
        count=4 if count is None else count,
        resamples=resamples or 10_000,
        given=[option for option, value in options.items() if value not in (None, ())],
    )
    say(f"{to}: {name}")
