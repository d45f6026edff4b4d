"""A set is built from saved pages: what is kept is readable, what is lost is listed."""

import hashlib
import json

import pytest
from PIL import Image

from limner.cli.main import run
from limner.errors import ConfigError, DataError, MissingError
from limner.research.datasets.recipes.builder import build_recipes, summary
from limner.research.datasets.sets.stories import read_stories

WORDS = (
    "Chop the {0} into small rings and set them aside.",
    "Boil the {0} in salted water until they are soft.",
    "Serve the {0} hot, with bread and a little butter.",
)


def picture(path, seed, side=240):
    """A pattern of its own for every seed, so that no two are near-duplicates."""
    import numpy as np

    noise = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(path)


def page(folder, name, author="Ada", count=3, head=""):
    """A saved recipe with a picture after each step."""
    parts = [
        f"<html lang=en><head><title>{name}</title><meta name=author content='{author}'>{head}</head><body>"
    ]
    for number in range(count):
        parts.append(f"<p>{WORDS[number].format(name)}</p><img src='{name}/{number}.png'>")
        picture(
            folder / name / f"{number}.png", int(hashlib.sha256(name.encode()).hexdigest()[:6], 16) + number
        )
    (folder / f"{name}.html").write_text("".join(parts))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rules(to):
    return [one["rule"] for one in lines(to / "dropped.jsonl")]


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    for number, name in enumerate(("leeks", "beans", "carrots", "onions", "plums", "pears")):
        page(folder, name, author=f"Cook {number % 3}", head="<link rel=license href=https://l.example/by>")
    return folder


@pytest.mark.slow
def test_pages_become_stories(saved, tmp_path):
    to = tmp_path / "set"
    report = build_recipes([str(saved)], to)
    assert (report.pages, report.recipes, report.segments) == (6, 6, 18)
    assert report.readers == {"pictures close segments": 6}
    stories = read_stories(to)
    assert all(step.pictures[0].path for story in stories.stories for step in story.steps)
    assert {story.license for story in stories.stories} == {"https://l.example/by"}
    assert [len(story.steps) for story in stories.stories] == [3] * 6
    for story in stories.stories:
        assert story.source == "saved"
        for step in story.steps:
            ref = step.pictures[0]
            assert hashlib.sha256((to / ref.target).read_bytes()).hexdigest() == ref.sha256
    # three cooks of two recipes: one on each side
    assert report.splits["test"] == 3
    assert [one["state"] for one in lines(to / "pages.jsonl")] == ["in the set"] * 6
    assert "6 recipes with 18 steps" in summary(report, to)[0]
    before = (to / "stories.jsonl").read_bytes()
    assert build_recipes([str(saved)], to) == report
    assert (to / "stories.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_disjoint_split_keeps_cooks_apart(saved, tmp_path):
    command = ["data", "build-recipes", "--to", str(tmp_path / "set"), "--split", "disjoint"]
    assert run([*command, str(saved)]) == 0
    stories = read_stories(tmp_path / "set").stories
    assert len({(story.author, story.split) for story in stories}) == 3


@pytest.mark.slow
def test_what_is_lost_is_listed(saved, tmp_path):
    to = tmp_path / "set"
    (saved / "empty.html").write_text("")
    (saved / "short.html").write_text("<p>Only words of a page here.</p>")
    (saved / "copy.html").write_bytes((saved / "leeks.html").read_bytes())
    picture(saved / "icon.png", 1, side=199)
    Image.new("RGB", (300, 300), "white").save(saved / "white.png")
    picture(saved / "banner.png", 9, side=220)
    Image.open(saved / "banner.png").resize((2000, 220)).save(saved / "banner.png")
    (saved / "broken.png").write_bytes(b"no picture")
    Image.open(saved / "beans" / "1.png").resize((230, 230)).save(saved / "near.jpg", quality=90)
    secret = tmp_path / "secret.png"
    picture(secret, 77)
    odd = "icon.png white.png banner.png broken.png near.jpg ../secret.png gone.png http://192.0.2.1/x.png"
    body = "".join(
        f"<p>Then stir number {n} well.</p><img src='{name}'>" for n, name in enumerate(odd.split())
    )
    (saved / "zodd.html").write_text(body)
    report = build_recipes([str(saved)], to)
    assert report.recipes == 6
    dropped = report.dropped
    for rule in (
        "picture below 200 px",
        "picture is of one colour",
        "picture is a banner or rule",
        "picture does not open",
        "near-duplicate picture",
        "picture outside the folder of its page",
        "picture not there",
        "picture on the web",
        "page: duplicate page",
    ):
        assert dropped[rule] == 1, rule
    assert dropped["words without any picture"] == 2
    assert dropped["recipe with fewer than 2 segments"] == 2
    assert sum(dropped.values()) == sum(not rule.startswith("read: ") for rule in rules(to))
    secret_hash = hashlib.sha256(secret.read_bytes()).hexdigest()
    assert not any(secret_hash in path.name for path in (to / "images").iterdir())


@pytest.mark.slow
def test_decoration_on_three_pages_goes_everywhere(saved, tmp_path):
    picture(saved / "logo.png", 5)
    for path in saved.glob("*.html"):
        path.write_text(path.read_text() + "<p>Now follow the site.</p><img src=logo.png>")
    report = build_recipes([str(saved)], tmp_path / "set")
    assert report.dropped["picture on 3 or more pages"] == 6
    assert report.segments == 18


@pytest.mark.slow
def test_refusals_are_one_line(saved, tmp_path, capsys):
    assert run(["data", "build-recipes", "--to", str(tmp_path / "set")]) == 2
    assert "no source" in capsys.readouterr().err
    with pytest.raises(MissingError, match="does not exist"):
        build_recipes([str(tmp_path / "none")], tmp_path / "set")
    (tmp_path / "hollow").mkdir()
    with pytest.raises(DataError, match="no saved page in it"):
        build_recipes([str(tmp_path / "hollow")], tmp_path / "set")
    with pytest.raises(DataError, match=r"expected \.html"):
        build_recipes([str(saved / "leeks" / "0.png")], tmp_path / "set")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "stories.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match="that limner did not build"):
        build_recipes([str(saved)], mine)
    assert (mine / "stories.jsonl").read_text() == "{}"
    (saved / "leeks.html").write_text("<p>words alone")
    with pytest.raises(DataError, match="no recipe left of 1 page "):
        build_recipes([str(saved / "leeks.html")], tmp_path / "set")
    assert rules(tmp_path / "set")


@pytest.mark.slow
def test_recipeqa_joins_the_pages_under_the_same_rules(saved, tmp_path, capsys):
    qa = tmp_path / "qa"
    for number, (split, name) in enumerate((("train", "kale"), ("val", "leeks"), ("test", "chard"))):
        steps = []
        for n, words in enumerate(WORDS):
            picture(qa / "images" / split / "images-qa" / f"{name}{n}.png", 9000 + 10 * number + n)
            steps.append({"title": "", "body": words.format(name), "images": [f"{name}{n}.png"]})
        if split == "test":
            steps.append(
                {"title": "", "body": "Keep the rest in a cold place for later.", "images": ["gone.png"]}
            )
        # each question withholds what it asks for
        words = [{**step, "images": []} for step in steps]
        pictures = [{**step, "title": ""} for step in steps]
        asked = [{"recipe_id": name, "context": context} for context in (words, pictures)]
        (qa / f"{split}.json").write_text(json.dumps({"data": asked}))
    to = tmp_path / "set"
    run(["data", "build-recipes", str(saved), "--recipeqa", str(qa), "--to", str(to), "--json"])
    report = json.loads(capsys.readouterr().out)
    # leeks stands on a saved page, too
    assert (report["recipes"], report["segments"]) == (8, 24)
    assert report["readers"]["recipeqa"] == 2
    assert report["pages"] == 9
    assert report["dropped"]["recipeqa: further questions about a recipe"] == 3
    assert report["dropped"]["page: duplicate page"] == 1
    assert report["dropped"]["picture not there"] == 1
    listed = [one for one in lines(to / "dropped.jsonl") if one["page"] == "recipeqa/leeks"]
    assert [one["detail"] for one in listed] == ["leeks.html: duplicate page"]
    run(["data", "audit", "stories", "--annotations", str(to), "--split", "released", "--json"])
    assert json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_two_pictures_of_one_name_are_told_apart(tmp_path, capsys):
    qa, to = tmp_path / "qa", tmp_path / "set"
    for number, (split, name) in enumerate((("train", "kale"), ("val", "leeks"), ("test", "chard"))):
        steps = []
        for n, words in enumerate(WORDS):
            picture(qa / "images" / split / f"{name}{n}.png", 9000 + 10 * number + n)
            steps.append({"title": "", "body": words.format(name), "images": [f"{name}{n}.png"]})
        (qa / f"{split}.json").write_text(json.dumps({"data": [{"recipe_id": name, "context": steps}]}))
    picture(qa / "images" / "train" / "more" / "kale0.png", 9000)
    picture(qa / "images" / "train" / "more" / "kale1.png", 1)
    picture(qa / "images" / "test" / "leeks0.png", 2)  # of another split
    run(["data", "build-recipes", "--recipeqa", str(qa), "--to", str(to), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["dropped"]["recipeqa: further copies of a picture"] == 1
    assert report["dropped"]["different pictures of one name"] == 1
    (listed,) = (one for one in lines(to / "dropped.jsonl") if "of one name" in one["rule"])
    assert listed["page"] == "recipeqa/kale"
    both = [str(qa / "images" / "train" / place) for place in ("kale1.png", "more/kale1.png")]
    assert listed["picture"] == " ".join(both)
    sizes = {len(story.steps): story.steps[-1].text for story in read_stories(to).stories}
    assert sorted(sizes) == [2, 3]
    # its words go on in the next step
    assert sizes[2] == "\n\n".join(words.format("kale") for words in WORDS[1:])
