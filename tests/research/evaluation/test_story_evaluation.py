"""Stories end to end on tasks small enough to know every rank."""

import json

import numpy as np
import pytest

from limner.errors import DataError, NumericsError, ShapeError
from limner.records import PictureRef, Step, Story
from limner.research.evaluation.stories import (
    StoryResult,
    StoryTask,
    channel_scorer,
    commit,
    evaluate_stories,
    random_scorer,
)
from limner.store.search import Channel, Evidence, Index
from limner.store.vectors import Gallery, Space


def story(name, *pictures):
    """One step per argument: a picture id, a tuple of them, or None for a step without."""
    steps = []
    for number, ids in enumerate(pictures):
        names = () if ids is None else (ids,) if isinstance(ids, str) else ids
        refs = tuple(PictureRef(target=f"{i}.jpg", path=f"/{i}.jpg", sha256=i) for i in names)
        steps.append(Step(text=f"{name} {number}", pictures=refs))
    return Story(id=name, steps=tuple(steps))


def constant_scorer(size):
    """The canary that knows nothing and says so."""
    return lambda story: np.zeros((len(story.steps), size), dtype=np.float32)


STORIES = (story("one", "a", "b", "a"), story("two", "c", None, "a"), story("three", ("d", "e")))


def perfect(task):
    def score(one):
        table = np.zeros((len(one.steps), len(task.ids)), dtype=np.float32)
        for step, columns in enumerate(task.relevant[task.stories.index(one)]):
            table[step, list(columns)] = 1
        return table

    return score


def test_the_gallery_holds_every_picture_once():
    task = StoryTask.of(STORIES)
    assert task.ids == ("a", "b", "c", "d", "e")
    assert task.paths == ("/a.jpg", "/b.jpg", "/c.jpg", "/d.jpg", "/e.jpg")
    assert task.relevant == (((0,), (1,), (0,)), ((2,), (), (0,)), ((3, 4),))
    assert (task.queries, task.missing) == (6, ())


def test_pictures_without_file_or_hash_are_counted_and_asked_by_nobody():
    lost = Story(
        id="lost",
        steps=(
            Step(text="x", pictures=(PictureRef(target="gone.jpg", sha256="f"),)),
            Step(text="y", pictures=(PictureRef(target="bare.jpg", path="/bare.jpg"),)),
        ),
    )
    task = StoryTask.of((*STORIES, lost))
    assert task.missing == ("lost/1: gone.jpg", "lost/2: bare.jpg")
    result = evaluate_stories("p", task, perfect(task), resamples=20).result
    assert (result.missing, result.queries, result.stories, result.gallery) == (task.missing, 6, 3, 5)
    with pytest.raises(DataError, match="no step of 1 story"):
        StoryTask.of([lost])


def test_a_perfect_scorer_is_perfect_and_the_record_survives_json():
    task = StoryTask.of(STORIES)
    result = evaluate_stories("p", task, perfect(task), config={"k": 3}, resamples=50).result
    for name in ("R@1", "R@5", "MRR", "StR@1", "MedR"):
        found = result.metrics[name]
        assert (found.value, found.low, found.high) == (1, 1, 1)
        assert found.groups == 3
    again = StoryResult.model_validate(json.loads(result.model_dump_json()))
    assert again == result
    assert (again.config, again.tie_share) == ({"k": 3}, 0.0)


def test_hand_ranks_and_story_recall():
    task = StoryTask.of((story("s", "a", "b"), story("t", "c")))
    table = {"s": [[1, 3, 2], [2, 1, 3]], "t": [[5, 4, 6]]}
    outcome = evaluate_stories("h", task, lambda one: np.array(table[one.id], dtype=np.float32), resamples=20)
    assert outcome.pictures.ranks().tolist() == [3, 3, 1]
    assert outcome.worlds.ranks().tolist() == [1, 2, 1]
    assert outcome.result.metrics["R@1"].value == pytest.approx(1 / 3)
    assert outcome.result.metrics["StR@1"].value == pytest.approx(2 / 3)
    assert outcome.result.metrics["MedR"].value == 3
    assert outcome.groups == ("s", "s", "t")


def test_the_decoder_sees_whole_stories_and_its_answer_is_ranked():
    task = StoryTask.of(STORIES)
    shapes = []

    def decoder(table):
        shapes.append(table.shape)
        return -table

    worst = evaluate_stories("d", task, perfect(task), decoder, resamples=20)
    assert shapes == [(3, 5), (3, 5), (1, 5)]
    assert worst.pictures.ranks("optimistic").tolist() == [5, 5, 5, 5, 5, 4]


def test_wrong_shapes_and_numbers_are_refused():
    task = StoryTask.of(STORIES)
    with pytest.raises(ShapeError, match="scores of story one have shape"):
        evaluate_stories("w", task, constant_scorer(4))
    with pytest.raises(ShapeError, match="max-marginals of story one"):
        evaluate_stories("w", task, perfect(task), lambda table: table[:1])
    with pytest.raises(NumericsError, match="query 0"):
        evaluate_stories("w", task, perfect(task), lambda table: table * np.nan)


class TestCanaries:
    TASK = StoryTask.of([story(f"s{i}", *(f"p{i}.{j}" for j in range(6))) for i in range(50)])

    def test_a_constant_scorer_is_at_or_below_chance_and_says_it_ties(self):
        size = len(self.TASK.ids)
        result = evaluate_stories("c", self.TASK, constant_scorer(size), resamples=50).result
        for k in (1, 5, 10):
            assert result.metrics[f"R@{k}"].value <= k / size
            assert result.metrics[f"ER@{k}"].value == pytest.approx(k / size)
        assert result.metrics["StR@1"].value <= 6 / size
        assert result.tie_share == 1.0
        assert result.ties == "mean"

    def test_a_random_scorer_is_within_three_standard_errors_of_chance(self):
        size = len(self.TASK.ids)
        result = evaluate_stories("r", self.TASK, random_scorer(size, 5), resamples=50).result
        for name, chance in (("R@1", 1 / size), ("R@10", 10 / size), ("StR@1", 6 / size)):
            error = np.sqrt(chance * (1 - chance) / self.TASK.queries)
            assert abs(result.metrics[name].value - chance) < 3 * error
        assert "ER@1" not in result.metrics


class Letters:
    """A text encoder of one axis per first letter of the story's name."""

    name, fingerprint, dim = "letters", "letters", 3

    def encode_text(self, texts):
        return np.eye(3, dtype=np.float32)[["ot".find(text[0]) % 3 for text in texts]]


def test_channels_score_and_an_absent_channel_says_nothing():
    task = StoryTask.of((story("one", "a", "b"), story("two", "c")))
    vectors = np.eye(3, dtype=np.float16)[[0, 0, 1]]
    present = np.ones(3, dtype=bool)
    empty = Space(np.zeros((3, 3), dtype=np.float16), ~present)
    gallery = Gallery(task.ids, task.ids, {"labels": Space(vectors, present), "captions": empty})
    index = Index(gallery)
    evidence = Evidence(slope=2.0, z_slope=0.0, offset=-1.0)
    labels = Channel("labels", Letters(), "labels", evidence)
    captions = Channel("captions", Letters(), "captions", evidence)
    assert channel_scorer(index, [labels])(task.stories[0]).tolist() == [[1, 1, -1], [1, 1, -1]]
    both = channel_scorer(index, [labels, captions])(task.stories[1])
    assert both.tolist() == [[-1, -1, 1]]
    for channels in ([], [captions]):
        assert not channel_scorer(index, channels)(task.stories[0]).any()


def test_the_commit_is_that_of_the_code_or_none():
    found = commit()
    assert found is None or (
        len(found.removesuffix("+")) == 40 and set(found.removesuffix("+")) <= set("0123456789abcdef")
    )


def test_no_commit_where_git_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None
