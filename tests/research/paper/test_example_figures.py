"""Figures of examples show the words and pictures they are given, and mark the right ones."""

import re

import numpy as np
import pytest
import released
from made_up_results import result
from PIL import Image

from limner.errors import ConfigError, DataError
from limner.research.cli.figure import figure
from limner.research.datasets import load_dataset
from limner.research.datasets.pairs import one_row_per_pair
from limner.research.evaluation.results import Result
from limner.research.paper import plots, published_figures


def test_attention_has_a_bar_per_word_in_order():
    words = [("the", 0.1), ("goat", 0.7), ("sleeps\u200b", 0.2)]
    axes = plots.attention_bars({"CMCM": [words, [("one", 1.0)]]}).axes
    assert [bar.get_width() for bar in axes[0].patches] == [0.1, 0.7, 0.2]
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["the", "goat", "sleeps·"]
    assert axes[0].yaxis_inverted()
    with pytest.raises(DataError, match="without words"):
        plots.attention_bars({"CMCM": [words, []]})


def test_a_gallery_frames_the_right_picture_and_no_other():
    red, blue = Image.new("RGB", (8, 8), "red"), Image.new("L", (4, 9), 100)
    row = plots.GalleryRow(
        "a goat " * 60, ["Story"], red, [("CMCM", [blue, red], 1), ("CMCA", [blue, blue], None)]
    )
    figure = plots.gallery([row])
    widths = [axes.spines["left"].get_linewidth() for axes in figure.axes if axes.axison]
    assert widths == [1, 1, 3, 1, 1]
    assert len([axes for axes in figure.axes if axes.axison]) == 5
    text, relations = figure.axes[0].texts
    assert text.get_text().endswith("…")
    assert relations.get_text() == "Story"
    with pytest.raises(DataError, match="no text to show"):
        plots.gallery([])


@pytest.mark.parametrize("count", [1, 5])
def test_nothing_of_a_gallery_lies_over_anything_else(count):
    red = Image.new("RGB", (40, 30), "red")
    answers = [(name, [red] * count, 0) for name in ("CMCA", "CMCM_Story, refined")]
    shown = plots.gallery(
        [plots.GalleryRow(text, ["Story"], red, answers) for text in ("a goat " * 60, "tea")]
    )
    shown.draw_without_rendering()
    boxes = [text.get_window_extent() for axes in shown.axes for text in axes.texts]
    boxes += [axes.images[0].get_window_extent() for axes in shown.axes if axes.images]
    for place, one in enumerate(boxes):
        assert shown.bbox.x0 <= one.x0 < one.x1 <= shown.bbox.x1
        assert one.width > 5
        assert not any(one.overlaps(other) for other in boxes[place + 1 :])


def test_attention_of_two_runs_stands_side_by_side_over_the_same_words():
    texts = [[("the", 0.2), ("goat", 0.8)], [("one", 1.0)]]
    other = [[("the", 0.5), ("goat", 0.5)], [("one", 1.0)]]
    axes = plots.attention_bars({"CMCM": texts, "CMCA": other}).axes
    assert len(axes) == 4
    assert [one.get_title() for one in axes] == ["CMCM", "CMCA", "", ""]
    widths = [[bar.get_width() for bar in one.patches] for one in axes]
    assert widths == [[0.2, 0.8], [0.5, 0.5], [1.0], [1.0]]


def test_maps_of_features_keep_neighbours_and_colour_the_first_stories():
    rng = np.random.default_rng(0)
    own = np.repeat(np.arange(4), 10)
    features = (np.eye(4)[own] * 20 + rng.normal(size=(40, 4))).astype(np.float32)
    stories = [f"story {number}" for number in own]
    figure = plots.feature_maps({"before": (features, stories), "after": (features[:8], stories[:8])}, 2)
    first, second = figure.axes
    assert [first.get_title(), second.get_title()] == ["before", "after"]
    grey, colours = (points.get_offsets() for points in first.collections)
    assert (len(grey), len(colours)) == (20, 20)
    assert len(second.collections[1].get_offsets()) == 8
    # a picture's neighbours on the plane are of its own group
    plane = np.concatenate([colours, grey])
    far = np.linalg.norm(plane[:, None] - plane[None], axis=2) + 1e9 * np.eye(40)
    assert (far.argmin(axis=1) // 10 == own).mean() > 0.9


class Drawn:
    """Pictures of one colour, by the picture's name in the made-up pairs."""

    def __call__(self, name):
        return Image.new("RGB", (8, 8), (int(name[1:]), 0, 0))

    def same(self, one, other):
        return one == other


@pytest.fixture
def galleries(tmp_path, monkeypatch):
    """What `limner figure` shows of two measured runs, one of which refines."""
    runs = []
    for system, refined in (("CMCA", None), ("CMCM_Story", 9.0)):
        one = result(system, 0.5, refined=refined)
        about = one.about.model_copy(update={"refinement": {"strength": 0.1} if refined else {}})
        one.model_copy(update={"about": about}).write(tmp_path / system)
        runs.append(tmp_path / system)
    texts = {f"p{number}": f"text {number}" for number in range(120)}
    monkeypatch.setattr(published_figures, "open_pictures", lambda run: (texts, Drawn()))
    shown = []
    monkeypatch.setattr(plots, "write", lambda to, make, rows: shown.append(rows))

    def drawn(name, **options):
        figure(name, to=tmp_path / "it.png", run=tuple(runs), **options)
        return shown.pop()

    return drawn, [Result.read_part(run, "test") for run in runs]


def test_galleries_show_what_refinement_finds_and_say_the_relation(galleries):
    drawn, (plain, refines) = galleries
    assert refines.top != refines.refined_top
    rows = drawn("cmcm-6", relation=("Story",), count=3)
    assert len(rows) == 3
    for row in rows:
        place = plain.ids.index(f"p{row.text.split()[1]}")
        assert "Story" in row.relations
        assert {name for name, labels in plain.labels.items() if labels[place]} == set(row.relations)
        (first, theirs, _), (second, ours, right) = row.answers
        assert (first, second) == ("CMCA", "CMCM_Story, refined")
        for pictures, top in ((theirs, plain.top), (ours, refines.refined_top)):
            assert [one.getpixel((0, 0))[0] for one in pictures] == [int(name[1:]) for name in top[place]]
        assert right == 0  # refinement puts the right one first in made-up results


def test_one_picture_each_or_one_text_of_every_relation(galleries):
    drawn, (plain, _) = galleries
    (row,) = drawn("cmcm-1", relation=("Meta",))
    assert [len(pictures) for _, pictures, _ in row.answers] == [1, 1]
    rows = drawn("cmcm-9")
    assert set().union(*(row.relations for row in rows)) == {
        name for name, labels in plain.labels.items() if any(labels)
    }
    with pytest.raises(ConfigError, match="unknown relation 'Storey'"):
        drawn("cmcm-6", relation=("Storey",))


def test_runs_measured_before_refined_pictures_were_kept_are_refused(galleries, tmp_path):
    drawn, (_, refines) = galleries
    refines.model_copy(update={"refined_top": ()}).write(tmp_path / "CMCM_Story")
    with pytest.raises(DataError, match="run 'limner measure"):
        drawn("cmcm-6")


@pytest.mark.parametrize(
    ("name", "option", "uses"),
    [
        ("cmcm-3a", {"relation": ("nonsense",)}, "does not use --relation; it uses no option but --to"),
        ("cmcm-5", {"row": "CMCA"}, "does not use --row; it uses --runs, --data, --split, --resamples"),
        ("cmcm-1", {"count": 4}, "does not use --count; it uses --run, --text, --relation"),
    ],
)
def test_an_option_that_a_figure_does_not_use_is_refused(name, option, uses, tmp_path):
    with pytest.raises(ConfigError, match=uses):
        figure(name, to=tmp_path / "a.png", **option)
    assert not list(tmp_path.iterdir())


def test_a_plate_shows_pairs_of_every_relation_from_the_data_alone(tmp_path, monkeypatch):
    released.clue(tmp_path / "data" / "clue", 24)
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    figure("cmcm-4", to=tmp_path / "plate.html", count=2)
    page = (tmp_path / "plate.html").read_text()
    data = load_dataset("clue")
    heads = re.findall(r"<h2>(.*?): (\d+) of", page)
    having = [
        (name, sum(pair.labels[name] for pair in one_row_per_pair(data.pairs))) for name in data.relations
    ]
    assert heads == [(name, str(count)) for name, count in having]
    assert page.count("data:image/webp") == sum(min(2, count) for _, count in having)
    figure("cmcm-4", to=tmp_path / "plate.html", count=1, relation=("Story",))
    assert re.findall(r"<h2>(.*?):", (tmp_path / "plate.html").read_text()) == ["Story"]
    with pytest.raises(ConfigError, match="unknown relation 'Stry'"):
        figure("cmcm-4", to=tmp_path / "plate.html", relation=("Stry",))
