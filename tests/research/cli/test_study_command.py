"""The command: from measured runs to a report that equals a hand count."""

import json
import shutil
import sys
from collections import Counter
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO

import pytest

from limner.cli.main import run
from limner.errors import LimnerWarning
from limner.research.cli.measure import measure
from limner.research.evaluation.results import About, Result, SequenceResult
from limner.research.paper.run_pages import open_pictures
from limner.research.study.records import Vote, read_study, vote_lines
from limner.research.study.sources import positives

RELATION = "Story"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, drawings_run, product_run):
    """Two runs measured on their test stories."""
    folder = tmp_path_factory.mktemp("studied")
    kept = [shutil.copytree(one, folder / one.name) for one in (drawings_run, product_run)]
    with redirect_stdout(StringIO()), pytest.warns(LimnerWarning, match="VSR of"):
        measure(*kept, saliency=False)
    return kept


def limner(capsys, *words):
    """Status and output of a command."""
    status = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


def create(capsys, to, runs, *words):
    return limner(capsys, "study", "create", to, "--tested", runs[0], "--control", runs[1], *words)


@pytest.fixture(scope="module")
def made(tmp_path_factory, runs):
    """A study of pairs: made once, since the data set is drawn for each."""
    folder = tmp_path_factory.mktemp("made") / "s"
    out = StringIO()
    with redirect_stdout(out):
        words = ("--tested", runs[0], "--control", runs[1], "--relation", relation_of(runs), "--size", 10)
        assert run([str(word) for word in ("study", "create", folder, *words)]) == 0
    return folder, out.getvalue()


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the study, to be changed."""
    return shutil.copytree(made[0], tmp_path / "s")


def relation_of(runs):
    """A relation of the set with positives in the test part."""
    labels = Result.read_all(runs[0])[0].labels
    return max(labels, key=lambda name: sum(labels[name]))


@pytest.mark.slow
def test_pairs_of_runs_are_positives_with_the_first_found_pictures(runs, made):
    relation = relation_of(runs)
    assert "simple random, seed 0" in made[1]
    found = read_study(made[0])
    one, two = (Result.read_all(folder)[0] for folder in runs)
    labels = dict(zip(one.ids, one.labels[relation], strict=True))
    copies = {}
    for name, pair in zip(one.ids, one.pairs, strict=True):
        copies.setdefault(pair, []).append(name)
    due = {own[0] for own in copies.values() if 2 * sum(labels[name] for name in own) >= len(own)}
    assert set(found.population.strata[relation].population) == due
    texts, picture = open_pictures(runs[0])
    for item in found.items:
        entry = found.key.items[item.id]
        if entry.right is not None:
            continue
        row = one.ids.index(entry.source)
        assert item.text == texts[entry.source]
        same = picture.same(one.top[row][0], two.top[row][0])
        assert (item.prefilled == "same") == same
        assert entry.cluster == one.groups[row]
    assert found.key.systems[relation] == {"A": one.about.system, "B": two.about.system}


def test_a_repeated_pair_is_drawn_once_by_the_majority_of_its_labels():
    result = Result(
        about=About(system="s", data="d", split="grouped"),
        ids=tuple("abcdef"),
        groups=tuple("gggggg"),
        pairs=(0, 1, 0, 0, 1, 2),
        labels={"Story": (0, 1, 1, 1, 0, 0)},
    )
    assert positives(result, "Story") == ["a", "b"]
    assert positives(result, "all") == ["a", "b", "f"]


def test_what_runs_found_cannot_influence_the_draw(runs, made, tmp_path, capsys):
    changed = [shutil.copytree(one, tmp_path / one.name) for one in runs]
    for folder in changed:
        result = Result.read_all(folder)[0]
        pools = tuple(
            pool.model_copy(update={"plain": tuple(float(pool.pictures) for _ in pool.plain)})
            for pool in result.pools
        )
        top = tuple(tuple(reversed(row)) for row in result.top)
        result.model_copy(update={"top": top, "pools": pools}).write(folder)
    assert create(capsys, tmp_path / "two", changed, "--relation", relation_of(runs), "--size", 10)[0] == 0
    one, two = ((folder / "population.json").read_bytes() for folder in (made[0], tmp_path / "two"))
    assert one == two
    assert read_study(made[0]).items != read_study(tmp_path / "two").items


def test_stories_of_runs_are_shown_whole_with_their_truth(runs, tmp_path, capsys):
    words = ("--protocol", "tick-all", "--size", 2, "--checks", 0)
    assert create(capsys, tmp_path / "s", runs, *words)[0] == 0
    found = read_study(tmp_path / "s")
    one, two = (SequenceResult.read_all(folder)[0] for folder in runs)
    steps = Counter(one.stories)
    drawn = found.population.strata["all"].drawn
    assert Counter(entry.cluster for entry in found.key.items.values()) == {s: steps[s] for s in drawn}
    _, picture = open_pictures(runs[0])
    for item in found.items:
        entry = found.key.items[item.id]
        row = one.ids.index(entry.source)
        shown = {letter: side for side, letters in entry.systems.items() for letter in letters}
        names = {"A": one.ids[row], "B": one.found["steps"].top[row][0], "C": two.found["steps"].top[row][0]}
        for letter, other in (("A", "B"), ("B", "C"), ("A", "C")):
            if picture.same(names[letter], names[other]):
                assert shown[letter] == shown[other]


def test_contact_purpose_and_retention_are_registered(folder, runs, tmp_path, capsys):
    notice = ("--contact", "ada@uni.example", "--purpose", "A thesis.", "--retention", "Until 2030.")
    assert create(capsys, tmp_path / "told", runs, "--size", 2, *notice)[0] == 0
    found = read_study(tmp_path / "told").study
    assert dict(found.notice) == dict(zip(("contact", "purpose", "retention"), notice[1::2], strict=True))
    status, _, err = create(capsys, tmp_path / "half", runs, "--size", 2, *notice[:4])
    assert (status, "--retention missing" in err) == (2, True)
    status, _, err = limner(capsys, "study", "serve", tmp_path / "told", "--port", 0, *notice)
    assert (status, "are registered; leave the options out" in err) == (2, True)
    text = (tmp_path / "told" / "study.json").read_text("utf-8")
    (tmp_path / "told" / "study.json").write_text(text.replace("Until 2030", "For ever"), "utf-8")
    assert "altered after the study was registered" in limner(capsys, "study", "status", tmp_path / "told")[2]


def shown_sources(folder):
    """Source → letter → picture file, of a study."""
    found = read_study(folder)
    return {
        found.key.items[item.id].source: {
            letter: one.picture
            for one in item.candidates
            for letter in found.key.items[item.id].systems.get(one.id, ())
        }
        for item in found.items
        if found.key.items[item.id].right is None
    }


def test_pictures_after_refinement_are_those_of_the_refined_ranking(runs, tmp_path, capsys):
    changed = [shutil.copytree(one, tmp_path / one.name) for one in runs]
    for folder in changed:
        result = Result.read_all(folder)[0]
        assert len(result.refined_top) == len(result.ids), "both runs refine"
        # a refinement that turns everything round
        result.model_copy(update={"refined_top": tuple(row[::-1] for row in result.top)}).write(folder)
    relation = relation_of(runs)
    words = ("--relation", relation, "--size", 10, "--checks", 0)
    for name, more in (("plain", ()), ("fine", ("--refined",))):
        status, _, err = create(capsys, tmp_path / name, changed, *words, *more)
        assert status == 0
        assert ("before refinement" in err) == (name == "plain")
    plain, fine = (shown_sources(tmp_path / name) for name in ("plain", "fine"))
    assert plain.keys() == fine.keys(), "what is shown has no influence on what is drawn"
    assert plain != fine
    one = Result.read_all(changed[0])[0]
    _, picture = open_pictures(runs[0])
    for source, files in fine.items():
        row = one.ids.index(source)
        same = picture.same(one.refined_top[row][0], one.top[row][0])
        assert (files["A"] == plain[source]["A"]) == same
    made = read_study(tmp_path / "fine").study
    assert sum("those after refinement (strength" in line for line in made.analysis) >= 1
    # a story's steps after refinement
    stories = ("--protocol", "tick-all", "--size", 1, "--checks", 0)
    assert create(capsys, tmp_path / "s1", changed, *stories)[0] == 0
    assert create(capsys, tmp_path / "s2", changed, *stories, "--refined")[0] == 0
    assert shown_sources(tmp_path / "s1") != shown_sources(tmp_path / "s2")


def test_runs_measured_before_refined_pictures_were_kept_say_so(runs, tmp_path, capsys):
    old = shutil.copytree(runs[0], tmp_path / "old")
    result = Result.read_all(old)[0]
    result.model_copy(update={"refined_top": ()}).write(old)
    status, _, err = create(capsys, tmp_path / "s", [old, runs[1]], "--refined")
    assert status == 1
    assert err.count("\n") == 1
    assert f"run 'limner measure {old}' again" in err
    assert create(capsys, tmp_path / "s", [old, runs[1]], "--size", 2)[0] == 0


def test_pairs_of_decoded_stories(runs, tmp_path, capsys):
    words = ("--decoding", "distinct", "--size", 8, "--checks", 0)
    assert create(capsys, tmp_path / "s", runs, *words)[0] == 0
    shown = shown_sources(tmp_path / "s")
    stories = [SequenceResult.read_all(folder)[0] for folder in runs]
    assert set(shown) <= set(stories[0].ids)
    _, picture = open_pictures(runs[0])
    for source, files in shown.items():
        row = stories[0].ids.index(source)
        first = [one.found["distinct"].top[row][0] for one in stories]
        assert (files["A"] == files["B"]) == picture.same(*first)
    made = read_study(tmp_path / "s").study
    assert any("none appears twice in a story" in line for line in made.analysis)
    status, _, err = create(capsys, tmp_path / "t", runs, *words, "--refined")
    assert (status, "leave --decoding out" in err) == (2, True)
    (tmp_path / "i.jsonl").write_text("{}\n")
    told = limner(capsys, "study", "create", tmp_path / "t", "--items", tmp_path / "i.jsonl", "--refined")
    assert "--refined and --decoding apply to measured runs" in told[2]


def answered(found, raters=3):
    """Votes of raters who prefer the tested picture in every second item, and pass all checks."""
    cast, truth = [], Counter()
    time = datetime(2026, 3, 1, tzinfo=UTC)
    place = 0
    for item in found.items:
        if item.prefilled:
            truth["same"] += 1
            continue
        entry = found.key.items[item.id]
        answer = entry.right
        if answer is None:
            side = {letters[0]: name for name, letters in entry.systems.items()}
            answer = (side["A"], side["B"], "neither", "same")[place % 4]
            truth[("better", "worse", "neither", "same")[place % 4]] += 1
            place += 1
        cast += [
            Vote(item=item.id, rater=f"r{n}", answer=answer, seconds=1, time=time) for n in range(raters)
        ]
    return cast, truth


@pytest.mark.slow
def test_status_and_report_of_exported_votes_equal_a_hand_count(folder, tmp_path, capsys):
    found = read_study(folder)
    cast, truth = answered(found)
    file = tmp_path / "votes.jsonl"
    file.write_text(vote_lines(cast), encoding="utf-8")
    status, out, err = limner(capsys, "study", "status", folder, "--votes", file, "--json")
    counted = json.loads(out)
    asked = sum(truth.values()) - found.study.prefilled
    assert status == 0
    assert (counted["votes"], counted["due"], counted["complete"]) == (3 * asked, 3 * asked, asked)
    assert (counted["raters"], counted["failed"], counted["untouched"]) == (3, 0, 0)
    assert "unaltered" not in err
    words = ("study", "report", folder, "--votes", file, "--resamples", 100)
    status, out, _ = limner(capsys, *words, "--format", "json")
    own = json.loads(out)["views"][0]["strata"][0]
    assert own["outcomes"] == dict(sorted(truth.items()))
    for form, start in (("md", "# Texts"), ("latex", "\\begin{table}"), ("html", "<!doctype html>")):
        status, out, _ = limner(capsys, *words, "--format", form)
        assert status == 0
        assert out.startswith(start)
        assert "Krippendorff" in out
    assert limner(capsys, *words, "--format", "html", "--to", tmp_path / "r.html")[1] == ""
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "http" not in page.replace("http-equiv", "")
    assert "the stored population reproduce the sample" in page


@pytest.mark.slow
def test_export_of_a_database_reads_back_and_reports_the_same(folder, tmp_path, capsys):
    from limner.research.study.assignment import AssignmentPlan
    from limner.research.study.recruitment import new_secret
    from limner.research.study.votes import VoteBase

    found = read_study(folder)
    assert "no votes yet" in limner(capsys, "study", "status", folder)[2]
    base = VoteBase(folder, found.study)
    plan = AssignmentPlan.of(found)
    for answer in ("first", "second", "first"):
        rater = base.join(new_secret())
        while (page := base.turn(rater, plan).unit) is not None:
            assert base.vote(rater, page, [(item.id, answer, item.ids) for item in page.items]) == "stored"
    base.close()
    status, _, err = limner(capsys, "study", "export", folder, "--to", tmp_path / "v.jsonl")
    assert status == 0
    assert f"{3 * found.study.items} votes" in err
    again = limner(capsys, "study", "export", folder, "--to", tmp_path / "v.jsonl")
    assert (again[0], "--overwrite" in again[2]) == (1, True)
    words = ("study", "report", folder, "--resamples", 50, "--format", "json")
    assert limner(capsys, *words)[1] == limner(capsys, *words, "--votes", tmp_path / "v.jsonl")[1]


def test_a_report_without_statsmodels_is_one_line(folder, tmp_path, capsys, monkeypatch):
    file = tmp_path / "votes.jsonl"
    file.write_text(vote_lines(answered(read_study(folder))[0]), encoding="utf-8")
    for name in ("statsmodels.stats.power", "statsmodels.stats.inter_rater"):
        monkeypatch.setitem(sys.modules, name, None)
    status, _, err = limner(capsys, "study", "report", folder, "--votes", file)
    assert status == 1
    assert err.count("\n") == 1
    assert "pip install 'limner[studies]'" in err


def test_an_altered_study_is_one_line_in_every_command(folder, tmp_path, capsys):
    file = tmp_path / "votes.jsonl"
    file.write_text("", encoding="utf-8")
    items = folder / "items.jsonl"
    items.write_bytes(items.read_bytes().replace(b"first", b"First", 1))
    for command in ("status", "report"):
        status, out, err = limner(capsys, "study", command, folder, "--votes", file)
        assert (status, out) == (1, "")
        assert err.count("\n") == 1
        assert "items.jsonl: altered after the study was registered" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--relation", "Storry"), "unknown relation"),
        (("--names", "one"), "expected 2 names"),
        (("--size", "-1"), "size"),
        (("--raters", "0"), "raters"),
        (("--protocol", "tick-all", "--relation", "x"), "needs --tested and --control"),
        (("--relation", "a", "--relation", "a"), "is given twice"),
        (("--truth", "x"), "one control run and no --truth"),
    ],
)
def test_wrong_options_are_one_line(runs, tmp_path, capsys, words, message):
    status, _, err = create(capsys, tmp_path / "s", runs, *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_sources_that_are_missing_or_too_many_are_refused(runs, tmp_path, capsys):
    assert "name --tested and --control" in limner(capsys, "study", "create", tmp_path / "s")[2]
    assert "expected one; run 'limner measure" in create(capsys, tmp_path / "s", runs, "--part", "val")[2]
    (tmp_path / "i.jsonl").write_text("{}\n")
    assert (
        "leave out the other sources"
        in create(capsys, tmp_path / "s", runs, "--items", tmp_path / "i.jsonl")[2]
    )
    assert "study.json: does not exist" in limner(capsys, "study", "status", tmp_path)[2]
