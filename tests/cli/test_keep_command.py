"""``limner illustrate --keep``: which steps stay as an earlier storyboard has them."""

import json

import pytest
from fakes import noise_picture

from limner.cli.main import run
from limner.errors import LimnerError
from limner.library import Library, Storyboard
from limner.records import Area, Framing

WORDS = ("A red boat.", "A blue lake.", "A green hill.", "A white house.")
NAMES = ("red boat", "blue lake", "green hill", "white house", "red boat at sea", "old clock")


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    root = tmp_path_factory.mktemp("keep")
    (root / "pictures").mkdir()
    for number, name in enumerate(NAMES):
        noise_picture(number).save(root / "pictures" / f"{name}.png")
    assert run(["index", str(root / "pictures"), "--library", str(root / "lib"), "--encoder", "colour"]) == 0
    return root / "lib"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, *WORDS)
    return tmp_path


def write(home, *steps):
    (home / "a.md").write_text("# Four\n\n" + "\n\n".join(steps))


def shown(home, lib, name, *words):
    """Names of the pictures of a storyboard that the command makes."""
    assert run(["illustrate", "a.md", "--library", str(lib), "-o", name, "--overwrite", *words]) == 0
    return names(json.loads((home / name).read_text()))


def names(board):
    return [
        one["chosen"] and one["chosen"]["picture"]["paths"][0].rpartition("/")[2].removesuffix(".png")
        for one in board["steps"]
    ]


PINNED = (
    "--pin",
    "1=old clock.png",
    "--pin",
    "2=white house.png",
    "--pin",
    "3=none",
    "--pin",
    "4=blue lake.png",
)
ODD = ["old clock", "white house", None, "blue lake"]


def test_every_step_stays_without_being_told_again(home, lib, capsys):
    assert shown(home, lib, "first.json", *PINNED) == ODD
    capsys.readouterr()
    assert shown(home, lib, "second.json", "--keep", "first.json") == ODD
    assert (
        "4 steps: 3 pinned, 1 left blank: as you wished; 4 kept, 0 chosen again\n" in capsys.readouterr().out
    )
    first, second = (json.loads((home / name).read_text()) for name in ("first.json", "second.json"))
    assert [one["origin"] for one in second["steps"]] == [one["origin"] for one in first["steps"]]


@pytest.mark.slow
def test_what_is_named_pinned_banned_or_reworded_is_chosen_anew(home, lib, capsys):
    shown(home, lib, "first.json", *PINNED)
    keep = ("--keep", "first.json")
    assert shown(home, lib, "b.json", *keep, "--again", "3, 4")[:3] == [*ODD[:2], "green hill"]
    assert "; 2 kept, 2 chosen again" in capsys.readouterr().out
    pinned = shown(home, lib, "b.json", *keep, "--pin", "1=red boat at sea.png")
    assert pinned == ["red boat at sea", *ODD[1:]]
    banned = shown(home, lib, "b.json", *keep, "--ban", "white house.png")
    assert banned[1] != "white house"
    assert [banned[0], *banned[2:]] == [ODD[0], *ODD[2:]]
    write(home, "A green hill at dawn.", *WORDS[1:])
    assert shown(home, lib, "b.json", *keep) == ["green hill", *ODD[1:]]


@pytest.mark.slow
def test_a_blank_that_nobody_asked_for_stays_blank(home, lib):
    words = ("--min-probability", "0.99", "--ban", "green hill.png")
    assert shown(home, lib, "first.json", *words)[2] is None
    assert shown(home, lib, "b.json", "--keep", "first.json")[2] is None
    first, second = (json.loads((home / name).read_text())["steps"][2] for name in ("first.json", "b.json"))
    assert second["blank"] == first["blank"] != "asked for"
    assert second["reason"] == "No picture here, as in the storyboard that was kept."
    assert shown(home, lib, "b.json", "--keep", "first.json", "--again", "3")[2] == "green hill"


def test_a_number_of_pictures_and_one_more(home, lib, capsys):
    words = [f"{word} {'It lay there in the light of a long evening. ' * 4}" for word in WORDS]
    write(home, *words)
    first = shown(home, lib, "first.json", "--show", "always")
    out = capsys.readouterr().out
    assert sum(name is not None for name in first) == 1  # one for about 200 words
    assert "\n1 picture for 4 paragraphs (--pictures all for each)\n4 steps: 1 chosen, 3 left blank" in out
    assert (
        sum(name is None for name in shown(home, lib, "b.json", "--show", "always", "--pictures", "2")) == 2
    )
    assert None not in shown(home, lib, "b.json", "--show", "always", "--pictures", "all")
    keep = ("--show", "always", "--keep", "first.json")
    assert shown(home, lib, "b.json", *keep) == first
    blank = first.index(None)
    more = shown(home, lib, "b.json", *keep, "--again", str(blank + 1))
    assert more[blank] is not None
    assert [*more[:blank], *more[blank + 1 :]] == [*first[:blank], *first[blank + 1 :]]


def test_steps_are_found_where_they_are_now(home, lib):
    shown(home, lib, "first.json", *PINNED)
    write(home, WORDS[3], "A green hill.", "A red boat at sea.", WORDS[0])
    moved = shown(home, lib, "b.json", "--keep", "first.json")
    assert moved == ["blue lake", None, "red boat at sea", "old clock"]


@pytest.mark.slow
def test_a_picture_that_is_pinned_elsewhere_is_not_shown_twice(home, lib):
    shown(home, lib, "first.json", *PINNED)
    words = ("--keep", "first.json", "--pin", "1=blue lake.png")
    once = shown(home, lib, "b.json", *words)
    assert once[:3] == ["blue lake", "white house", None]
    assert once[3] != "blue lake"
    assert shown(home, lib, "b.json", *words, "--allow-repeats") == [
        "blue lake",
        "white house",
        None,
        "blue lake",
    ]


@pytest.mark.slow
def test_a_picture_that_is_gone_frees_its_step_and_is_said(home, lib, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    noise_picture(40).save(other / "red boat.png")
    noise_picture(41).save(other / "blue lake.png")
    assert run(["index", str(other), "--library", "own", "--encoder", "colour"]) == 0
    shown(home, "own", "first.json")
    gone = json.loads((home / "first.json").read_text())["steps"][0]["chosen"]["picture"]["paths"][0]
    (other / "red boat.png").unlink()
    noise_picture(42).save(other / "boat, red.png")
    assert run(["index", str(other), "--library", "own", "--encoder", "colour"]) == 0
    capsys.readouterr()
    assert shown(home, "own", "b.json", "--keep", "first.json")[:2] == ["boat, red", "blue lake"]
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "no longer" in line] == [
        f"step 1: {gone} is no longer in the library; chosen again"
    ]
    assert "; 3 kept, 1 chosen again" in out


def test_the_crop_stays_with_the_step(home, lib):
    library = Library.open(lib)
    board = library.illustrate("a.md", pins={1: "old clock.png"})
    crop = Framing(crop=Area(x=0, y=0, width=0.5, height=0.5), caption="Tick")
    step = board.steps[0].model_copy(update={"framing": crop})
    edited = Storyboard(**dict(board.model_copy(update={"steps": (step, *board.steps[1:])})))
    again = library.illustrate("a.md", keep=edited, again=[2])
    assert again.steps[0].framing == crop
    assert again.kept == 3


@pytest.mark.slow
def test_a_picture_of_the_text_itself_stays_and_a_new_one_counts_as_a_change(home, lib):
    noise_picture(77).save(home / "own.png")
    write(home, WORDS[0], "A blue lake. ![](own.png)", *WORDS[2:])
    assert shown(home, lib, "first.json", "--pin", "1=old clock.png")[:2] == ["old clock", "own"]
    assert shown(home, lib, "b.json", "--keep", "first.json")[:2] == ["old clock", "own"]
    step = json.loads((home / "b.json").read_text())["steps"][1]
    assert (step["origin"], step["blank"]) == ("given", None)
    write(home, *WORDS)
    assert shown(home, lib, "b.json", "--keep", "first.json")[:2] == ["old clock", "blue lake"]


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["a.md", "--again", "3"], 2, "--again: names steps of an earlier storyboard; add --keep"),
        (["a.md", "--keep", "a.json", "--again", "x"], 2, "--again 'x': expected steps from 1, such as 3,5"),
        (["a.md", "--keep", "a.json", "--again", "0"], 2, "--again '0': expected steps from 1, such as 3,5"),
        (["a.md", "--keep", "no.json"], 1, "no.json: does not exist; expected a storyboard's .json file"),
        (["a.md", "a.md", "--keep", "a.json"], 2, "found 2 texts"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_made(home, lib, capsys, words, status, part):  # noqa: PLR0917
    assert run(["illustrate", *words, "--library", str(lib), "-o", "b.html"]) == status
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert part in err
    assert not (home / "b.html").exists()


def test_a_step_to_choose_anew_that_the_text_does_not_have_is_refused(home, lib, capsys):
    shown(home, lib, "a.json")
    words = ["--keep", "a.json", "--again", "2,5", "--library", str(lib), "-o", "b.html"]
    assert run(["illustrate", "a.md", *words]) == 1
    assert "again: step 5 does not exist; the text has 4 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"again": [2]}, "again: .* needs an earlier storyboard; add keep"),
        ({"keep": "no.json"}, "no.json: does not exist"),
        ({"keep": 5}, "keep: 5 is of type int"),
        ({"keep": "a.json", "again": "2"}, "again: '2' is of type str; expected a list of steps"),
        ({"keep": "a.json", "again": [0]}, "again: step 0 does not exist; the text has 4 steps"),
    ],
)
def test_python_says_what_is_wrong_too(home, lib, arguments, part):
    library = Library.open(lib)
    library.illustrate("a.md").save("a.json")
    with pytest.raises(LimnerError, match=part):
        library.illustrate("a.md", **arguments)
