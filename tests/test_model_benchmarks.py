"""What the benchmarks of limner's own model add to it agrees with plain loops and values by hand."""

import json
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from limner.errors import DataError
from limner.research.datasets.pairs import Pair, PairSet, Source
from limner.research.datasets.sets.captions import CaptionedPicture
from limner.research.datasets.sets.stories import read_story_pairs
from limner.research.evaluation.refinement import OuterSum
from limner.research.scenes.graphs import read_graphs
from limner.research.worlds import PictureBook, write


class Batch:
    """Two stories of two and three pictures, the second picture with two texts, and a picture without one."""

    stories = torch.tensor([7, 7, 4, 4, 4, -1])
    owners = torch.tensor([0, 1, 1, 2, 3, 4, 5])
    texts = torch.tensor([20, 11, 10, 5, 7, 6, 1])


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_stories_are_compared_as_sets_by_their_best_assignment(benchmark):
    scores = torch.randn(7, 6) / 10
    said, shown = [[0, 1, 2], [3, 4, 5]], [[0, 1], [2, 3, 4]]
    table = np.zeros((2, 2))
    for a, texts in enumerate(said):
        for b, pictures in enumerate(shown):
            fewer = min(len(texts), len(pictures))
            table[a, b] = max(
                np.mean([float(scores[t, p]) for t, p in zip(some, others, strict=True)])
                for some in permutations(texts, fewer)
                for others in permutations(pictures, fewer)
            )
    table /= benchmark.SETS_TEMPERATURE
    costs = [np.logaddexp(*row) - row[i] for i, row in enumerate(table)]
    costs += [np.logaddexp(*column) - column[i] for i, column in enumerate(table.T)]
    assert float(benchmark.of_sets(scores, Batch)) == pytest.approx(np.mean(costs), rel=1e-4)


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_the_other_texts_of_pictures_teach(benchmark):
    english = torch.nn.functional.normalize(torch.randn(7, 5), dim=1)
    logits, owners = torch.randn(7, 6), Batch.owners
    total = []
    for text in (1, 2):  # only their picture has another text
        best = [
            max(float(english[text] @ english[o]) for o in range(7) if o != text and owners[o] == p)
            for p in range(6)
        ]
        teacher = np.exp(np.array(best) / benchmark.DISTIL_TEMPERATURE)
        teacher /= teacher.sum()
        student = logits[text].log_softmax(0).numpy()
        total.append(float((teacher * (np.log(teacher) - student)).sum()))
    assert float(benchmark.distilled(english, logits, owners)) == pytest.approx(np.mean(total), rel=1e-4)


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_each_word_finds_its_best_region(benchmark):
    late = benchmark.Late(9, 0.0).eval().requires_grad_(requires_grad=False)
    rarity = torch.tensor([0, 0.5, 1, 2, 3, 1, 1, 1, 2.0])
    words, weights = late.texts([[3, 1], []], rarity)
    assert weights[0, :2].tolist() == pytest.approx([4 / 4.25, 0.25 / 4.25])
    assert float(weights[1].sum()) == 0
    regions = torch.nn.functional.normalize(torch.randn(4, 9, benchmark.REGION), dim=2)
    found = late.scores(words, weights, regions)
    for picture in range(4):
        best = [max(float(words[0, w] @ region) for region in regions[picture]) for w in range(2)]
        expected = 0.1 * (4 * best[0] + 0.25 * best[1]) / 4.25
        assert float(found[0, picture]) == pytest.approx(expected, abs=1e-5)
    assert float(found[1].abs().max()) == 0


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_a_walk_reads_no_later_step_and_no_other_story(benchmark):
    walk = benchmark.Walk().eval()
    rows, steps = torch.randn(5, 896), torch.tensor([3, 2])
    made = walk(rows, steps)
    assert walk.divergence.item() >= 0
    changed = rows.clone()
    changed[2] += 1  # the last step of the first story
    other = walk(changed, steps)
    assert torch.allclose(made[[0, 1, 3, 4]], other[[0, 1, 3, 4]], atol=1e-5)
    assert not torch.allclose(made[2], other[2], atol=1e-3)


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_the_control_of_a_walk_knows_no_other_step(benchmark):
    alone = benchmark.StepsAlone().eval()
    rows, steps = torch.randn(5, 896), torch.tensor([3, 2])
    made = alone(rows, steps)
    assert torch.allclose(made, torch.cat([alone(row[None], torch.tensor([1])) for row in rows]), atol=1e-5)
    assert alone.divergence.item() > 0


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_what_a_drawn_world_shows_goes_by_its_pictures(benchmark, tmp_path):
    write(tmp_path / "world", PictureBook(0).stories(6), size_px=64)
    data = read_story_pairs(Source(tmp_path / "world", pictures=None))
    graphs = benchmark.graphs_of(tmp_path / "world", data, ())
    shown = read_graphs(tmp_path / "world" / "scene_graphs.jsonl")
    assert {pair.image_id: graphs[pair.image_id].objects for pair in data.pairs} == {
        pair.image_id: shown[Path(pair.image).stem].objects for pair in data.pairs
    }
    told = benchmark.relations_of(tmp_path / "world", data)
    for line in (tmp_path / "world" / "stories.jsonl").read_text().splitlines():
        for page in json.loads(line)["pages"]:
            (own,) = (pair for pair in data.pairs if pair.image.endswith(page["image"]))
            assert told[own.image_id] == page["relations"]
    assert benchmark.relations_of(None, data) == {}
    assert benchmark.graphs_of(None, data, [tmp_path / "world" / "scene_graphs.jsonl"]) == shown


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_scores_are_refined_by_what_is_best_for_the_other_half(benchmark):
    scores = np.tile(np.array([0.5, 0.49, 0.1], np.float32), (4, 1))
    terms = np.zeros((3, 1), np.float32)
    terms[1] = 8  # relations are sure of the second picture
    logits = OuterSum(np.zeros((4, 1), np.float32), terms)
    found = benchmark.refined(scores, logits, np.array([1, 1, 0, 0]), ["a", "a", "b", "b"])
    assert found.argmax(axis=1).tolist() == [0, 0, 1, 1]  # each half goes by the other one's
    found = benchmark.refined(scores, logits, np.array([1, 1, 1, 1]), ["a", "a", "b", "b"])
    assert found.argmax(axis=1).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_a_part_is_measured_without_what_training_shows_where_asked(benchmark, monkeypatch):
    told = [("train", "a", "s"), ("val", "a", "t"), ("val", "b", "t"), ("val", "c", "u"), ("test", "c", "v")]
    pairs = [
        Pair(id=str(n), text=f"{n}", image=f"{image}.png", image_hash=64 * image, split=split, seq=story)
        for n, (split, image, story) in enumerate(told)
    ]
    scores = np.array([[3, 1, 2], [3, 1, 2], [1, 2, 3]], np.float32)  # ranks 1, 3, 1
    model = SimpleNamespace(step="plain", score=lambda texts, images: scores)
    monkeypatch.setattr(benchmark, "rows_of", lambda pairs, *_: SimpleNamespace(pairs=pairs))
    monkeypatch.setattr(benchmark, "vectors", lambda *_: (None, None, np.arange(3)))
    data = {"made": PairSet("made", (), tuple(pairs))}
    for unseen, due in ((False, ([1, 1 / 3, 1], ["t", "t", "u"])), (True, ([1 / 3, 1], ["t", "u"]))):
        asked = SimpleNamespace(part="val", unseen=unseen)
        values, groups = benchmark.reciprocal(model, data, None, None, asked)["made"]
        assert (values.tolist(), groups) == (pytest.approx(due[0]), due[1])


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_relations_of_all_pairs_are_those_of_each(benchmark):
    model = object.__new__(benchmark.StepModel)
    torch.nn.Module.__init__(model)
    model.relation_head = torch.nn.Linear(4, 3)
    texts, images = torch.randn(2, 4), torch.randn(5, 4)
    found = model.relation_table(texts.numpy(), images.numpy())
    due = model.relation_head(texts[:, None] * images * 4**0.5).detach().numpy()
    np.testing.assert_allclose(found, due, atol=1e-5)


@pytest.mark.parametrize("benchmark", ["limner_steps"], indirect=True)
def test_sets_that_have_runs_of_their_own_have_an_interval_over_them(benchmark):
    worlds = ["a", "b", "c"]
    gaps = {"a": 0.1, "b": 0.2, "c": 0.6}

    def figures(more):
        values = {name: (np.array([0.1, 0.3]) + more * gaps[name], ["x", "y"]) for name in worlds}
        return [0.2 + more * gaps[name] for name in worlds], values

    found = {("plain", 0): figures(0), ("walk", 0): figures(1)}
    lines = benchmark.table(found, ["plain", "walk"], [0], apart=True)
    assert lines[0] == "| | mean | a | b | c |"
    assert lines[2] == "| plain | 0.200 | 0.200 | 0.200 | 0.200 |"
    half = 4.30265 * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5  # t of two degrees of freedom
    assert lines[3].split(" | ")[1] == f"0.500 (+0.300, {0.3 - half:+.3f} … {0.3 + half:+.3f})"


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_a_batch_is_read_as_stories_in_order_of_their_rows(benchmark):
    seen = set()
    for _ in range(20):
        texts, columns, steps = benchmark.steps_in_order(Batch, alone=True)
        assert Batch.owners[texts].tolist() == columns.tolist()
        assert steps.tolist() == [1, 3, 2]
        assert columns.tolist() == [5, 2, 4, 3, 1, 0]  # stories -1, 4 and 7, each in order of rows
        seen.add(int(texts[4]))
    assert seen == {1, 2}  # either text of the second picture
    texts, columns, steps = benchmark.steps_in_order(Batch, alone=False)
    assert columns.tolist() == [2, 4, 3, 1, 0]
    assert steps.tolist() == [3, 2]


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_graphs_of_chosen_pictures_are_held_against_the_step_before(benchmark, tmp_path, monkeypatch):
    things = [("dog",), ("dog", "ball"), (), ("cup",), ("cup", "table")]
    file = tmp_path / "graphs.jsonl"
    box = [0, 0, 1, 1]
    file.write_text(
        "\n".join(
            json.dumps(
                {
                    "image": str(number),
                    "objects": [{"label": label, "box": box, "score": 1} for label in labels],
                    "relations": [{"s": 0, "p": "near", "o": 1, "score": 1}] if len(labels) > 1 else [],
                }
            )
            for number, labels in enumerate(things)
        )
    )

    class Labels:
        dim = 4

        def encode_text(self, texts):
            return np.random.default_rng(0).normal(size=(len(texts), 4)).astype(np.float32)

    scenes = benchmark.SceneGraphs(read_graphs(file), Labels())
    scores = torch.randn(5, 6, requires_grad=True)
    columns, steps, ids = torch.tensor([0, 1, 5, 2, 3]), torch.tensor([3, 2]), [str(n) for n in range(5)]
    others = torch.tensor([3, 4, 3, 0, 1])
    monkeypatch.setattr(benchmark, "rows_of_other_stories", lambda steps: others)
    loss = scenes(scores, columns, steps, ids, 0.1)
    with torch.no_grad():
        rows, _ = scenes.encoder(benchmark.batch_graphs([scenes.graphs[n] for n in ids], scenes.numbers))
        best = scores[:, columns].argmax(dim=1).tolist()
        total = 0.0
        for step in (1, 2, 4):  # those with a step before them
            pair = best[step - 1], best[step]
            total += 0.0 if 2 in pair else 1 - float(rows[pair[0]] @ rows[pair[1]])
            if 2 not in (step, step - 1, int(others[step])):
                near, far = float(rows[step - 1] @ rows[step]), float(rows[step - 1] @ rows[others[step]])
                total += max(0.0, benchmark.GRAPH_MARGIN - near + far)
    assert loss.item() == pytest.approx(total / 5, abs=1e-5)
    loss.backward()
    assert scores.grad[:, 4].abs().sum() == 0  # of no step
    assert scenes.encoder.out.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("benchmark", ["step_models"], indirect=True)
def test_a_small_captioner_learns_to_tell_and_teaches_the_choice(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "SAID", 1)
    teller = benchmark.Teller(["a red dog runs", "a blue cat sits", "the dog eats"], 6)
    pictures, steps, rows = torch.eye(6)[:3].requires_grad_(), torch.tensor([2, 1]), torch.tensor([0, 2, 1])
    optimiser = torch.optim.Adam(teller.parameters(), 0.01)
    for _ in range(60):
        optimiser.zero_grad()
        loss = teller(pictures, steps, rows)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.3
    assert pictures.grad.abs().sum() > 0
    with torch.no_grad():
        teller.eval()
        assert float(teller(pictures.flip(0), steps, rows)) > 2 * float(teller(pictures, steps, rows))


@pytest.mark.parametrize("benchmark", ["look_traits"], indirect=True)
def test_pictures_are_asked_for_the_others_of_their_story(benchmark):
    made = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [0, 1], [0.1, 0.9]])
    stories = np.array([0, 1, 0, 1, 2])
    found, groups = benchmark.precision(made, stories)
    assert groups == [0, 1, 0, 1]  # the last is alone in its story
    # the right one is second, fourth, first and third among the other four
    assert found.tolist() == pytest.approx([1 / 2, 1 / 4, 1, 1 / 3])


@pytest.mark.parametrize("benchmark", ["look_traits"], indirect=True)
def test_at_most_four_pictures_of_a_story_come_together(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "BATCH", 16)
    parts = benchmark.batches(np.repeat(np.arange(16), 4), np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(64))
    assert {len(np.unique(rows // 4)) for rows in parts} == {4}  # whole stories


def _rated(module, scored):
    return [module.Rated(picture=name, text="a dog", ratings=ratings) for name, ratings in scored]


@pytest.mark.parametrize("benchmark", ["rating_agreement"], indirect=True)
def test_every_rating_is_one_observation(benchmark):
    rated = _rated(benchmark, [("a", (1, 2)), ("b", (2,)), ("c", (3, 3))])
    scores = np.array([0.1, 0.3, 0.2])
    said, given = [0.1, 0.1, 0.3, 0.2, 0.2], [1, 2, 2, 3, 3]
    order = [np.sign((said[i] - said[j]) * (given[i] - given[j])) for i in range(5) for j in range(i + 1, 5)]
    due = 2 * sum(order) / (5**2 * (3 - 1) / 3)  # three different values on either side
    assert benchmark.agreement(scores, rated, 50).value == pytest.approx(due)


@pytest.mark.parametrize("benchmark", ["rating_agreement"], indirect=True)
def test_what_does_not_count_is_left_out_and_counted(benchmark, tmp_path):
    known = {
        "a": CaptionedPicture(file_name="a", split="test", captions=("A dog .",)),
        "b": CaptionedPicture(file_name="b", split="train", captions=("A cat .",)),
    }
    lines = [("a", "A dog ."), ("a", "A cat ."), ("b", "A dog .")]
    file = tmp_path / "ratings.jsonl"
    file.write_text("\n".join(json.dumps({"picture": p, "text": t, "ratings": [1, 2]}) for p, t in lines))
    kept, left_out = benchmark.read_ratings(file, known)
    assert [(row.picture, row.text) for row in kept] == [("a", "A cat .")]
    assert left_out == {"its own caption": 1, "not of the test part": 1}
    file.write_text('{"picture": "c", "text": "A dog .", "ratings": [1]}')
    with pytest.raises(DataError, match="no picture 'c' in the data set"):
        benchmark.read_ratings(file, known)
