"""The benchmarks of stories run, and compute what they say; no time is asserted."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_up_results import result

from limner.errors import DataError
from limner.research.scenes.graphs import read_graphs

CONFIGS = Path(__file__).parents[1] / "configs"


@pytest.mark.parametrize("benchmark", ["story_results"], indirect=True)
def test_of_a_story_that_is_given_only_its_own_other_pictures_are_ranked(benchmark):
    scores = np.array([[9.0, 0, 0, 0], [0, 1, 5, 2], [8, 3, 4, 5], [1, 1, 1, 9], [0, 9, 0, 1]])
    columns = np.array([0, 1, 2, 3, 1])  # picture 1 is of both stories
    rows, table = benchmark.told(benchmark.Part(scores, np.zeros((4, 4)), columns, tuple("aaabb"), np.eye(4)))
    assert rows.tolist() == [1, 2, 4]
    ranks = [int((row > row[columns[query]]).sum()) + 1 for query, row in zip(rows, table, strict=True)]
    assert ranks == [2, 1, 1]  # of pictures 1 and 2, 1 and 2, and 1
    for query, shown in zip(table, ([1, 2], [1, 2], [1]), strict=True):
        assert np.flatnonzero(query > query.min()).tolist() == shown


@pytest.mark.parametrize("benchmark", ["story_results"], indirect=True)
def test_walks_bring_what_the_sum_over_their_lengths_does(benchmark):
    vectors = np.random.default_rng(1).normal(size=(6, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    part = benchmark.Part(np.zeros((1, 6)), alike.copy(), np.zeros(1, int), ("a",), alike.copy())
    found = benchmark.walked(part, 0.2, 0.8)
    shares = np.zeros((6, 6))
    for here in range(6):
        others = [there for there in range(6) if there != here]
        weights = np.exp([alike[here, there] / 0.2 for there in others])
        shares[here, others] = weights / weights.sum()
    mutual = (shares + shares.T) / 2
    even = np.array(
        [[mutual[a, b] / (mutual[a].sum() * mutual[b].sum()) ** 0.5 for b in range(6)] for a in range(6)]
    )
    step, due = np.eye(6), np.zeros((6, 6))
    for _ in range(200):
        due, step = due + step, 0.8 * step @ even
    np.testing.assert_allclose(np.exp(found.pull), due, rtol=1e-4)
    np.testing.assert_array_equal(part.alike, alike)  # as it was


@pytest.mark.parametrize("benchmark", ["story_results"], indirect=True)
def test_two_calls_are_compared_page_by_page(benchmark, capsys):
    names = ["a"] * 20 + ["b"] * 20

    def measured(hits):
        values = {name: np.ones(40) for name in benchmark.SHOWN} | {"R@10": np.array(hits, float)}
        return benchmark.line("pin", [(values, names), (values, names)])

    first, second = measured([1] * 30 + [0] * 10), measured([1] * 20 + [0] * 20)
    capsys.readouterr()
    benchmark.compare({"pin": first, "new": first}, {"pin": second, "old": second})
    shown = capsys.readouterr().out.splitlines()[3:]
    # all of it in one of two stories
    assert shown == ["| pin | +25.0 [+0.0, +50.0] |", "| new | not in --against |"]
    other = second | {benchmark.STORIES: names[::-1]}
    with pytest.raises(DataError, match="pin: not the same pages as in --against"):
        benchmark.compare({"pin": first}, {"pin": other})


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["training_steps"], indirect=True)
def test_made_up_stories_go_the_real_way(benchmark, tmp_path, monkeypatch):
    sizes = "--stories 9 --steps 1 --batch 4 --words 6 --vocabulary 60 --width 6 --keys 5"
    benchmark.MODERATE.update(
        model={"word_width": 6, "hidden": 4, "attention": 3, "dim": 5},
        graph_model={"dim": 4, "width": 4},
        captioner={"local": 4, "hidden": 4, "joined": 6, "seen": 4, "state": 5, "word_width": 3},
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = benchmark.measure(benchmark.parsed(["--system", "gsda", *sizes.split()]))
    assert found["losses"] == ["caption", "contrast", "graph", "ranking", "total"]
    assert found["steps_per_epoch"] == 2
    assert found["h_per_epoch"] == pytest.approx(2 * found["s_per_step"] / 3600)
    assert found["peak_gb"] > 0
    assert list(tmp_path.iterdir()) == []  # the made-up data are gone
    of_vrss = benchmark.measure(benchmark.parsed(["--system", "vrss", *sizes.split()]))
    assert of_vrss["losses"] == ["hinge", "kl", "reconstruction", "total"]
    assert of_vrss["steps_per_epoch"] == 2


@pytest.mark.parametrize("benchmark", ["training_steps"], indirect=True)
def test_made_up_stories_have_the_sizes_asked_for(benchmark, tmp_path):
    sizes = "--stories 30 --words 8 --vocabulary 60 --width 6 --batch 4"
    rows = benchmark.corpus(tmp_path, benchmark.parsed(sizes.split()))
    assert (len(rows.train), len(rows.val)) == (150, 5)
    counts = [len(text.split()) for text in rows.train.texts]
    assert 4 <= min(counts) <= max(counts) < 12
    taken = rows.pictures.take(rows.train.places[:3])
    assert taken.shape == (3, 6)
    assert taken.any()
    benchmark.write_graphs(tmp_path / "g.jsonl", [pair.image_id for pair in rows.train.pairs])
    graphs = list(read_graphs(tmp_path / "g.jsonl").values())
    assert [graph.empty for graph in graphs] == [number % 20 == 0 for number in range(150)]
    assert all(2 <= len(graph.objects) <= 9 for graph in graphs if not graph.empty)


@pytest.mark.slow
@pytest.mark.soak  # resuming bit for bit and each system's step have shorter tests
@pytest.mark.parametrize("benchmark", ["gpu_check"], indirect=True)
def test_the_check_of_a_card_runs_on_the_cpu(benchmark):
    found = dict(benchmark.check("cpu", quick=True))
    assert found["resumed run, float32"] == "equal bit for bit"
    assert "differ by 0.0e+00" in found["step, cmcm/cmcm, CPU and cpu"]
    assert "epochs of projections" in found["limner, 12 drawn books"]
    speeds = [line for name, line in found.items() if name.startswith(("forward", "index"))]
    assert len(speeds) == 4
    assert all("pictures/s" in line for line in speeds)


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["story_results"], indirect=True)
def test_a_metric_of_its_own_says_what_pictures_say_for_each_other(
    benchmark, drawings_run, train_tiny, tmp_path, monkeypatch
):
    metric = train_tiny(tmp_path / "metric", config=CONFIGS / "document" / "document.toml")
    # its validation pictures are too few to fit one
    monkeypatch.setattr(benchmark, "read_pairwise", lambda folder: SimpleNamespace(slope=2.0, offset=-0.5))
    part = benchmark.opened(drawings_run, None, "test", metric)
    away = ~np.eye(len(part.pull), dtype=bool)
    np.testing.assert_allclose(part.pull[away], (2 * part.alike - 0.5)[away])
    assert np.abs(np.diag(part.alike) - 1).max() < 1e-5
    assert part.scores.shape == (len(part.columns), len(part.pull))


@pytest.mark.parametrize("benchmark", ["story_results"], indirect=True)
def test_a_pin_without_text_ranks_by_the_pictures_alone(benchmark):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(9, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T

    def part():
        scores = rng.normal(size=(9, 9))  # other texts every time
        return benchmark.Part(scores, alike.copy(), np.arange(9), tuple("aaaabbbbb"), alike.copy())

    first, second = part(), part()
    for one, other in zip(*(part.weighed("pin", 0.0, 1.0) for part in (first, second)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first.weighed("pin", 5.0, 1.0)[1], second.weighed("pin", 5.0, 1.0)[1])
    walks = [benchmark.chosen_walk([one], scales=(0.0,)) for one in (first, second)]
    assert walks[0] == walks[1]
    assert walks[0][1][0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["story_contrasts"], indirect=True)
def test_stories_of_one_picture_are_compared_by_the_ranks_of_the_whole_gallery(
    benchmark, tmp_path, monkeypatch, capsys
):
    runs = {name: result(name, quality) for name, quality in (("good", 3.0), ("poor", 0.0))}
    for name, run in runs.items():
        run.write(tmp_path / name)
    monkeypatch.setattr("sys.argv", ["_", "--runs", str(tmp_path), "--rows", "good", "poor"])
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    shares = [100 * np.mean(np.array(run.full.plain) <= 10) for run in runs.values()]
    for line, name, share in zip(lines, runs, shares, strict=False):
        assert line.startswith(f"{name}, 1 seed, {len(runs[name].full.queries)} stories: R@1 ")
        assert f"R@10 {share:.3f} [" in line
    assert lines[3].split()[:2] == ["R@10", f"{shares[0] - shares[1]:+.3f}"]
