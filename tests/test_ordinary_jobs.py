"""The ordinary jobs are what they say, and their measures count right; made-up photographs and stories."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from limner.arrays import unit_rows
from limner.errors import ConfigError, DataError
from limner.match import encoder_setup
from limner.records import Story

FOLDER = Path(__file__).parents[1] / "benchmarks"
SUBJECTS = ("dog", "girl", "car", "horse", "boat", "bird", "man", "cat")
DEEDS = ("runs", "sleeps", "jumps", "waits", "eats", "turns", "shines", "falls", "swims", "plays")


class BagOfWords:
    """Every word has a direction of its own: texts without a common word are orthogonal."""

    name, dim, fingerprint = "minilm", 4096, "bag-of-words"

    def __init__(self):
        self.places = {}

    def encode_text(self, texts):
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().replace(".", " ").split():
                place = self.places.setdefault(word, len(self.places))
                rows[row, place] += 1
        return unit_rows("bag of words", rows)


def captions_of(number):
    """Five captions of photograph `number`: two neighbours in number are photographs of the same."""
    kind = number // 2
    words = f"{SUBJECTS[kind % 8]} {DEEDS[kind // 8 % 10]} place{kind}"
    return [f"A {words} {extra}" for extra in ("now", "here", "today", "again", "outside")]


def kind_of(name):
    return int(Path(name).stem) // 2


def picture(path, seed):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    Image.fromarray(small).resize((24, 24), Image.Resampling.BICUBIC).save(path)
    return path.name


def photographs(folder):
    rows = []
    splits = ["test"] * 96 + ["val"] * 240 + ["train"] * 80
    for number, split in enumerate(splits):
        name = picture(folder / "images" / f"{number:03d}.png", number)
        rows.append({"file_name": f"images/{name}", "split": split, "captions": captions_of(number)})
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def stories(folder, count, seed):
    """Stories of one to three pages by `count` authors; every seventh picture is that of the story before."""
    import hashlib

    rows, last = [], None
    for number in range(count):
        pages = []
        for page in range(1 + number % 3):
            path = folder / "images" / f"{number}-{page}.png"
            picture(path, 10_000 * seed + 10 * number + page)
            made = {
                "text": f"Tale{seed}x{number} leaf{page} said{seed}x{number}x{page}. More of it. And more.",
                "image": f"images/{path.name}",
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            pages.append(made)
        if number % 7 == 6 and last is not None:
            pages[0] = pages[0] | {"image": last["image"], "sha256": last["sha256"]}
        last = pages[0]
        row = {"story_id": f"{folder.name}{number}", "source": f"source{number}", "pages": pages}
        if folder.name == "storybook":
            row["split"] = ("train", "val", "val", "test")[number % 4]
        rows.append(row)
    (folder / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of data sets and that of vectors, made up."""
    root = tmp_path_factory.mktemp("ordinary")
    photographs(root / "data" / "flickr8k")
    for seed, name in enumerate(("storybook", "howto", "recipes", "headers"), start=1):
        stories(root / "data" / name, 60, seed)
    return root


@pytest.fixture
def suite(place, monkeypatch):
    """The modules of the suite, over the made-up data, by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("LIMNER_DATA", str(place))
    found = {
        name: importlib.import_module(f"ordinary.{name}")
        for name in ("jobs", "texts", "pictures", "boards", "measures")
    }
    monkeypatch.setattr(found["pictures"], "BOOKS", {"fit": 2, "choose": 2, "report": 3})
    monkeypatch.setattr(found["pictures"], "SIDE_PX", 32)
    monkeypatch.setattr(found["texts"], "NOUNS", SUBJECTS)
    return found


@pytest.fixture(scope="module")
def sentences(place):
    """One encoder, so that one supply serves all tests."""
    return BagOfWords()


@pytest.fixture
def made(suite, sentences, place):
    """Makes the jobs of a cell."""

    def make(kind, words="hidden", size=24, part="report", limit=None):
        return suite["jobs"].jobs(
            kind, words, size, part, encoders=(sentences, []), cache=place / "cache", limit=limit
        )

    return make


def libraries(jobs):
    return {id(job.gallery): job.gallery for job in jobs}.values()


CELLS = [
    ("books", "shown", 40),
    ("storybook", "hidden", 24),
    ("howto", "hidden", 24),
    ("recipes", "hidden", 24),
    ("headers", "hidden", 24),
    ("unrelated", "third", 24),
    ("same-noun", "shown", 24),
    ("one-photograph", "hidden", 24),
    ("magazine", "shown", 24),
]


@pytest.mark.parametrize(("kind", "words", "size"), CELLS)
def test_every_step_has_its_own_among_what_fits_among_the_library(made, kind, words, size):
    jobs = made(kind, words, size)
    assert jobs
    for job in jobs:
        held = set(job.gallery.ids)
        assert len(job.story.steps) == len(job.own) == len(job.fits) == len(job.lacks)
        for own, fits, lack in zip(job.own, job.fits, job.lacks, strict=True):
            assert own <= fits <= held
            assert bool(own) == bool(fits) == (lack == "")
        assert not any(step.pictures for step in job.story.steps)
        assert [one.id for one in job.records(job.gallery.ids)] == job.gallery.ids
    assert {len(gallery) for gallery in libraries(jobs)} == {size}
    assert len(libraries(jobs)) < len(jobs)  # texts share libraries


@pytest.mark.parametrize(("kind", "words", "size"), CELLS)
def test_parts_share_no_picture_and_no_story(made, kind, words, size):
    seen, told = {}, {}
    for part in ("fit", "choose", "report"):
        for job in made(kind, words, size, part):
            for one in job.gallery.ids:
                assert seen.setdefault(one, part) == part
            for step in job.story.steps:
                if step.text.startswith("Tale"):  # two photographs may have one caption
                    assert told.setdefault(step.text, part) == part


def test_a_picture_in_two_parts_stays_with_the_later_part(suite, made):
    stock = suite["pictures"].STORY_SETS
    data = suite["pictures"].open_set(stock[0])
    parts = suite["pictures"].parted(data, stock[0])
    pictures = {
        part: {suite["pictures"].own_of(s, n) for s in parts[part] for n in range(len(s.steps))}
        for part in ("fit", "choose", "report")
    }
    before = {story.id: len(story.steps) for story in data.stories}
    assert any(len(s.steps) < before[s.id] for part in ("fit", "choose") for s in parts[part])
    assert not pictures["fit"] & pictures["choose"]
    assert not (pictures["fit"] | pictures["choose"]) & pictures["report"]


@pytest.mark.slow
def test_words_are_shown_hidden_or_shown_for_a_third(suite, made):
    present = {}
    for words in ("shown", "hidden", "third"):
        gallery = made("unrelated", words, 96)[0].gallery
        present[words] = dict(zip(gallery.ids, gallery.space("captions").present, strict=True))
        rows = gallery.space("captions").matrix
        assert rows.any(axis=1).tolist() == list(present[words].values())
    assert all(present["shown"].values())
    assert not any(present["hidden"].values())
    for one, here in present["third"].items():
        assert here == suite["pictures"].has_words(one, "third")
    share = np.mean([suite["pictures"].has_words(f"{n}.jpg", "third") for n in range(3000)])
    assert share == pytest.approx(1 / 3, abs=0.03)
    job = made("unrelated", "third", 96)[0]
    for record in job.records(job.gallery.ids):
        assert bool(record.captions) == present["third"][record.id]


def test_the_library_says_another_caption_than_the_text(made):
    for job in made("unrelated", "shown", 24, limit=4):
        for step, own in zip(job.story.steps, job.own, strict=True):
            (record,) = [one for one in job.records(job.gallery.ids) if one.id in own]
            assert record.captions[0].text.endswith("here")
            assert not step.text.endswith("here")
            assert step.text.split()[:4] == record.captions[0].text.split()[:4]


def test_photographs_of_the_same_fit_and_others_do_not(made):
    found = 0
    for job in made("unrelated", "shown", 96):
        for own, fits in zip(job.own, job.fits, strict=True):
            (name,) = own
            number = int(name[-7:-4])
            assert fits == {f"images/{number:03d}.png", f"images/{number ^ 1:03d}.png"}
            found += 1
    assert found == 96 * 4  # every photograph once for each of four captions


def test_texts_of_one_noun_share_it_and_those_of_one_photograph_differ(made):
    for job in made("same-noun", "shown", 24):
        shared = set.intersection(*(set(step.text.split()) for step in job.story.steps))
        assert shared & set(SUBJECTS)
    for job in made("one-photograph", "shown", 24):
        assert len(frozenset.union(*job.own)) == len(job.story.steps) == 8


def test_nothing_fits_where_a_blank_is_right(suite, made, sentences):
    kinds = set()
    for job in made("magazine", "shown", 24):
        said = {one.id: captions_of(int(one.id[-7:-4])) for one in job.records(job.gallery.ids)}
        means = np.stack([sentences.encode_text(own).mean(axis=0) for own in said.values()])
        for step, lack in zip(job.story.steps, job.lacks, strict=True):
            kinds.add(lack)
            near = (sentences.encode_text([step.text]) @ means.T).max()
            if lack:
                assert near < suite["texts"].DOUBTFUL
            else:
                assert near > suite["texts"].FITS
            assert (lack == "foreign") == step.text.startswith("Tale")
    assert kinds == {"", "foreign", "withheld"}


def test_single_pages_come_eight_to_a_text_and_fit_themselves_alone(made):
    pages = [job for job in made("howto") if "page" in job.story.id]
    assert pages
    assert max(len(job.story.steps) for job in pages) <= 8
    for job in pages:
        for own, fits, step in zip(job.own, job.fits, job.story.steps, strict=True):
            assert own == fits
            assert step.text.endswith("More of it.")  # the first two sentences
    assert [job for job in made("howto") if "page" not in job.story.id]


def test_a_library_without_words_or_of_no_size_is_said(made):
    with pytest.raises(ConfigError, match="howto have no words"):
        made("howto", "shown")
    with pytest.raises(ConfigError, match="unknown kind 'novel'"):
        made("novel")
    with pytest.raises(DataError, match="the report alone, not of choose"):
        made("translated", part="choose")
    with pytest.raises(DataError, match="pictures for a library of 5000"):
        made("unrelated", size=5000)


@pytest.mark.slow
def test_boards_and_plain_search_are_those_of_limner(suite, made, sentences, place, monkeypatch):
    monkeypatch.setattr(encoder_setup, "text_encoder", lambda name="minilm", **_: sentences)
    jobs = made("unrelated", "shown", 24, limit=2)
    desk = suite["boards"].Desk((sentences, []), place / "cache", ["show=always"])
    found = list(desk.outcomes(jobs))
    for job, outcomes in zip(jobs, found, strict=True):
        assert [one.own for one in outcomes] == list(job.own)
        illustrator = suite["boards"].JobIllustrator(job, desk)
        board = illustrator.board(job.story, illustrator.options(overrides=desk.overrides))
        assert [one.chosen for one in outcomes] == [
            None if step.chosen is None else step.chosen.picture.id for step in board.steps
        ]
        assert [one.stated for one in outcomes] == [step.probability for step in board.steps]
        for step, one in zip(job.story.steps, outcomes, strict=True):
            best = illustrator.search(step.text, 1)[0].picture.id
            assert kind_of(best) == kind_of(one.alone)  # two photographs have the same captions
    assert any(one.alone in one.own for outcomes in found for one in outcomes)


def test_a_memory_gives_what_the_encoder_gives_and_asks_it_once(suite, tmp_path):
    asked = []

    class Counted(BagOfWords):
        def encode_text(self, texts):
            asked.extend(texts)
            return super().encode_text(texts)

    encoder = Counted()
    memory = suite["boards"].Memory(encoder, tmp_path)
    memory.learn(["a b", "c", "a b"])
    np.testing.assert_array_equal(memory.encode_text(["c", "a b"]), encoder.encode_text(["c", "a b"]))
    assert asked[:2] == ["a b", "c"]
    del asked[:]
    again = suite["boards"].Memory(encoder, tmp_path)
    again.encode_text(["a b"])
    assert not asked
    again.encode_text(["a b", "d"])
    assert asked == ["d"]


@pytest.fixture
def outcome(suite):
    def make(chosen, alone, *, own=("a",), fits=("a", "b"), lack="", stated=None, text="t"):
        return suite["boards"].Outcome(text, chosen, alone, stated, frozenset(own), frozenset(fits), lack)

    return make


def test_figures_by_hand(suite, outcome):
    nothing = {"own": (), "fits": ()}
    outcomes = [
        outcome("a", "c", text="1"),
        outcome("b", "a", text="1"),
        outcome(None, "a", text="2"),
        outcome("a", "a", text="2"),
        outcome("c", "c", text="2", lack="foreign", **nothing),
        outcome(None, "c", text="3", lack="foreign", **nothing),
        outcome("c", "c", text="3", lack="withheld", **nothing),
    ]
    found = suite["measures"].figures(outcomes)
    assert (found.texts, found.steps) == (3, 7)
    assert (found.own.found, found.own.of) == (2, 4)
    assert (found.alone_own.found, found.alone_own.of) == (3, 4)
    assert (found.fits.found, found.alone_fits.found, found.fits.of) == (3, 3, 4)
    assert found.own_gain.value == pytest.approx(-0.25)
    assert found.own_gain.groups == 2
    assert found.fits_gain.value == 0
    assert (found.blank_fits.found, found.blank_fits.of) == (1, 4)
    assert {name: (one.found, one.of) for name, one in found.wrong.items()} == {
        "foreign": (1, 2),
        "withheld": (1, 1),
    }
    assert found.calibrated.error is None


def test_calibration_error_by_hand(suite, outcome):
    nothing = {"own": (), "fits": ()}
    outcomes = [
        outcome("a", "a", stated=0.92),
        outcome("c", "a", stated=0.98),  # shown, does not fit
        outcome("b", "a", stated=0.25),
        outcome(None, "a", stated=0.05),  # a blank states nothing of a picture shown
        outcome("c", "c", stated=1.0, lack="foreign", **nothing),
    ]
    found = suite["measures"].figures(outcomes)
    shown = found.calibrated
    assert [(one.steps, one.true) for one in shown.bins] == [(1, 1.0), (3, pytest.approx(1 / 3))]
    high = abs((0.92 + 0.98 + 1.0) / 3 - 1 / 3)
    assert shown.error == pytest.approx((1 * 0.75 + 3 * high) / 4)


@pytest.mark.slow
def test_true_chances_show_an_error_too_where_steps_are_few(suite, outcome):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(1000):
        right = rng.random(40) < 0.3
        outcomes = [outcome("a" if one else "c", "a", stated=0.3) for one in right]
        found.append(suite["measures"].figures(outcomes).calibrated)
    errors = [one.error for one in found]
    assert found[0].noise == pytest.approx(np.mean(errors), rel=0.1)


def test_a_story_without_banned_pages(suite):
    story = Story.model_validate(
        {
            "id": "s",
            "steps": [
                {"text": name, "pictures": [{"target": name, "sha256": name * 64}]} for name in ("a", "b")
            ],
        }
    )
    kept = suite["pictures"].without(story, {"a" * 64})
    assert [step.text for step in kept.steps] == ["b"]
    assert suite["pictures"].without(story, {"a" * 64, "b" * 64}) is None
