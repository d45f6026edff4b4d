"""The commands as a person runs them: real pictures, the real sentence encoder, real files."""

import json
import re
import shutil
from pathlib import Path

import pytest
from fakes import noise_picture
from PIL import Image

import limner
from limner.cli.main import main, run
from limner.cli.reference import reference
from limner.records import chance_in_words, fit_of
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.research.worlds.demo import DemoCollection

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A picture book on disk and the library made of it."""
    root = tmp_path_factory.mktemp("cli")
    write(root / "book", PictureBook(3).stories(2, pages=(6, 6)), size_px=96, captions="metadata")
    assert run(["index", str(root / "book"), "--library", str(root / "lib"), "--encoder", "colour"]) == 0
    return root


def told(world):
    return json.loads((world / "book" / "stories.jsonl").read_text().splitlines()[0])


@pytest.fixture(scope="module")
def pages():
    """The reference of all commands."""
    return reference()


def test_the_reference_is_fresh(request, pages):
    path = request.config.rootpath / "docs" / "commands.md"
    assert path.read_text(encoding="utf-8").rstrip() == pages.rstrip(), "run 'make docs'"


def test_every_command_has_an_example(pages):
    commands = pages.split("\n## limner ")[1:]
    assert len(commands) > 6
    for page in commands:
        if " COMMAND" not in page.split("Usage:")[1].splitlines()[0]:
            assert "Example: limner" in page, page.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["serch"], 2, "did you mean 'search'"),
        (["search", "x", "--librry", "lib"], 2, "--library"),
        (["search", "x", "--library", "nowhere"], 1, "no picture library here"),
        (["index", "--library", "lib"], 2, "no folder given"),
        (["illustrate", "no.md", "--library", "lib", "-o", "x.odt"], 2, "unknown output format '.odt'"),
        (["illustrate", "no.md", "--library", "lib", "-o", "x.html"], 1, "no picture library here"),
        (["evaluate", "--qrels", "q", "--topics", "t", "--library", "lib"], 1, "no picture library here"),
        (["models", "get", "resnet51"], 2, "did you mean 'resnet50'"),
    ],
)
def test_what_is_wrong_is_one_line(words, status, part, *, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(words) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert part in err


def test_help_and_version_leave_with_success(capsys):
    for words in (["--help"], ["illustrate", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
    assert "Example: limner illustrate" in capsys.readouterr().out


def test_help_lists_every_command_once_in_three_groups(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["--help"])
    parts = re.split(r"╭─ (\w+) ─+╮", capsys.readouterr().out)[1:]
    groups = {
        title: re.findall(r"^│ (\S+) .*  ", body, re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2], strict=True)
    }
    assert list(groups) == ["Illustrate", "Research", "Studies", "Options"]
    assert groups["Illustrate"] == [
        "studio",
        "index",
        "illustrate",
        "search",
        "describe",
        "library",
        "models",
        "demo",
    ]
    assert groups["Studies"] == ["study"]
    package = Path(limner.__file__).parent
    folders = (package / "cli", package / "research" / "cli")
    commands = {path.stem for folder in folders for path in folder.glob("[a-z]*.py")}
    commands -= {"main", "reference", "terminal"}
    listed = [name for group in groups.values() for name in group]
    assert sorted(listed) == sorted([*commands, "--help", "--version"])


def test_debug_shows_the_traceback(tmp_path):
    with pytest.raises(OSError, match="no picture library"):
        run(["search", "x", "--library", str(tmp_path)], debug=True)


def test_a_second_index_reads_nothing_again(world, capsys):
    words = ["index", str(world / "book"), "--library", str(world / "lib"), "--encoder", "colour"]
    assert run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["new"] == report["changed"] == 0
    assert report["unchanged"] == report["found"] > 0


def test_a_wrong_source_leaves_no_library_behind(tmp_path, capsys):
    assert run(["index", str(tmp_path / "nowhere"), "--library", str(tmp_path / "lib")]) == 1
    assert "nowhere" in capsys.readouterr().err
    assert not (tmp_path / "lib").exists()


def test_search_prints_chances_and_keeps_the_numbers_by_name(world, capsys):
    words = ["search", "somebody sleeps in a bed", "--library", str(world / "lib"), "-k", "3"]
    assert run([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["score"] >= rows[1]["score"] >= rows[2]["score"]
    assert 1 >= rows[0]["probability"] >= rows[1]["probability"] >= rows[2]["probability"] >= 0
    assert run(words) == 0
    head, *lines = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert head == ["rank", "probability", "picture", "caption"]
    for row, line in zip(rows, lines, strict=True):
        assert set(row["channels"]) == {"captions"}
        assert row["fit"] == fit_of(row["probability"])
        assert line[1:] == [chance_in_words(row["probability"]), row["path"], row["caption"]]


def test_search_takes_a_file_words_to_leave_out_and_a_cut_off(world, tmp_path, capsys):
    picture = next((world / "book").rglob("*.png"))
    with Image.open(picture) as image:
        image.save(tmp_path / "mine.bmp")
    library = ["--library", str(world / "lib"), "-k", "3"]
    assert run(["search", "--like", str(tmp_path / "mine.bmp"), *library]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[:3] == ["1", "–", str(picture)]
    more = ["--with", "a boat", "--without", "snow", "--orientation", "square"]
    assert run(["search", "--like", str(picture), *more, *library]) == 0
    assert str(picture) not in capsys.readouterr().out
    assert run(["search", "no snow", "--min-probability", "1", *library]) == 0
    note, cut = capsys.readouterr().err.splitlines()
    assert note.endswith('--without "snow"')
    assert cut.startswith("nothing similar found: left out 3 pictures")
    assert run(["search", "no snow", "--json", *library]) == 0
    assert json.loads(capsys.readouterr().out)[0]["notes"] == [note]
    assert run(["search", *library]) == 2
    assert "give either words or --like" in capsys.readouterr().err


def test_search_finds_a_caption_by_its_own_words(world, capsys):
    row = json.loads((world / "book" / "metadata.jsonl").read_text().splitlines()[2])
    assert run(["search", row["text"], "--library", str(world / "lib"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["caption"] == row["text"]


def test_search_tells_when_and_where_a_picture_was_taken_as_json(tmp_path, capsys):
    folder = tmp_path / "pictures"
    folder.mkdir()
    noise_picture(1).save(folder / "a red barn.png")
    told = {"geoData": {"latitude": 30.5, "longitude": 104.25}, "photoTakenTime": {"timestamp": "1258375918"}}
    (folder / "a red barn.png.json").write_text(json.dumps(told))
    assert run(["index", str(folder), "--library", str(tmp_path / "lib")]) == 0
    capsys.readouterr()
    assert run(["search", "a red barn", "--library", str(tmp_path / "lib"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["taken"], row["coordinates"]) == ("2009-11-16T12:51:58Z", [30.5, 104.25])
    assert row["place"].endswith("Sichuan, China")
    assert run(["search", "a red barn", "--library", str(tmp_path / "lib")]) == 0
    assert "Sichuan" in capsys.readouterr().out


def illustrate(world, text, out, *more):
    return run(
        [
            "illustrate",
            str(text),
            "--library",
            str(world / "lib"),
            "-o",
            str(out),
            "--min-probability",
            "0",
            *more,
        ]
    )


def test_illustrate_pins_bans_and_leaves_blank(world, tmp_path):
    text = tmp_path / "tale.md"
    pages = told(world)["pages"]
    text.write_text("# A tale\n\n" + "\n\n---\n\n".join(page["text"] for page in pages))
    pinned, banned = pages[-1]["image"], pages[0]["image"]
    out = tmp_path / "tale.json"
    assert illustrate(world, text, out, "--pin", f"1={pinned}", "--pin", "2=none", "--ban", banned) == 0
    board = json.loads(out.read_text())
    assert board["story"]["title"] == "A tale"
    assert board["steps"][0]["origin"] == "pinned"
    assert board["steps"][0]["chosen"]["picture"]["paths"][0].endswith(pinned)
    assert board["steps"][1]["chosen"] is None
    shown = [s["chosen"]["picture"]["id"] for s in board["steps"] if s["chosen"]]
    assert len(shown) == len(set(shown)) == len(pages) - 1
    paths = [s["chosen"]["picture"]["paths"][0] for s in board["steps"] if s["chosen"]]
    assert not any(path.endswith(banned) for path in paths)


def test_pictures_of_the_text_are_kept_inside_and_outside_the_library(world, tmp_path, capsys):
    pages = told(world)["pages"]
    outside = tmp_path / "mine.png"
    from PIL import Image

    Image.new("RGB", (40, 30), "teal").save(outside)
    inside = world / "book" / pages[1]["image"]
    text = tmp_path / "tale.md"
    parts = [
        f"{pages[0]['text']}\n\n![my own](mine.png)",
        f"{pages[1]['text']}\n\n![]({inside})",
        f"{pages[2]['text']}\n\n![](https://example.org/far.jpg)",
    ]
    text.write_text("\n\n---\n\n".join(parts))
    out = tmp_path / "tale.json"
    assert illustrate(world, text, out) == 0
    assert "https://example.org/far.jpg, which is not a file on this machine" in capsys.readouterr().err
    first, second, third = json.loads(out.read_text())["steps"]
    assert first["origin"] == second["origin"] == "given"
    assert first["chosen"]["picture"]["paths"] == [str(outside)]
    assert first["chosen"]["picture"]["captions"][0]["text"] == "my own"
    assert second["chosen"]["picture"]["paths"][0].endswith(pages[1]["image"])
    assert third["origin"] == "blank", "no other picture takes the place of one that is missing"
    assert illustrate(world, text, out, "--overwrite", "--ignore-given") == 0
    assert all(step["origin"] == "decoded" for step in json.loads(out.read_text())["steps"])


def test_files_outside_the_texts_folder_are_not_shown(world, tmp_path, capsys):
    from PIL import Image

    Image.new("RGB", (40, 30), "teal").save(tmp_path / "private.png")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.jpg").write_text("no picture")
    text, out = tmp_path / "texts" / "tale.md", tmp_path / "tale.json"
    words = [page["text"] for page in told(world)["pages"]][:3]
    named = ["../private.png", "notes.jpg", "gone.jpg"]
    text.write_text("\n\n---\n\n".join(f"{a}\n\n![]({b})" for a, b in zip(words, named, strict=True)))

    assert illustrate(world, text, out, "--json") == 0
    printed = capsys.readouterr()
    board, lines = json.loads(printed.out), printed.err.splitlines()
    problems = [step["pictures"][0]["problem"] for step in board["story"]["steps"]]
    assert {step["origin"] for step in board["steps"]} == {"blank"}
    for step, (name, problem) in enumerate(
        [("../private.png", "lies outside"), ("notes.jpg", "is no picture"), ("gone.jpg", "is not there")]
    ):
        assert problems[step].startswith(problem)
        assert any(f"step {step + 1} shows {name}, which {problem}" in line for line in lines)


@pytest.mark.parametrize("suffix", ["html", "md", "pptx", "pdf"])
def test_every_format_is_written_and_not_overwritten_unasked(world, tmp_path, suffix, capsys):
    text = tmp_path / "tale.txt"
    text.write_text("\n\n".join(page["text"] for page in told(world)["pages"]))
    out = tmp_path / f"tale.{suffix}"
    assert illustrate(world, text, out) == 0
    first = out.read_bytes()
    assert len(first) > 200
    assert illustrate(world, text, out) == 1
    assert "exists" in capsys.readouterr().err
    assert out.read_bytes() == first


def test_settings_of_a_file_are_checked(world, tmp_path, capsys):
    text = tmp_path / "tale.txt"
    text.write_text("One fine day.\n\nThey went home.")
    settings = tmp_path / "board.toml"
    settings.write_text("shwo = 'always'\n")
    assert illustrate(world, text, tmp_path / "a.json", "--settings", str(settings)) == 2
    assert "did you mean 'show'" in capsys.readouterr().err
    settings.write_text("show = 'always'\nrunners_up = 1\n")
    assert (
        illustrate(world, text, tmp_path / "a.json", "--settings", str(settings), "--set", "candidates=7")
        == 0
    )
    board = json.loads((tmp_path / "a.json").read_text())
    assert board["settings"]["show"] == "always"
    assert board["settings"]["candidates"] == 7
    assert all(len(step["runners_up"]) <= 1 for step in board["steps"])
    assert illustrate(world, text, tmp_path / "b.json", "--pin", "x=1") == 2
    assert "STEP=PICTURE" in capsys.readouterr().err


def test_evaluate_measures_what_was_judged(world, capsys):
    ids = list(limner.Library(world / "lib").store.taken().numbers)
    (world / "qrels.txt").write_text(f"t 0 {ids[0]} 1\nt 0 {ids[1]} 0\nt 0 gone 1\n")
    (world / "topics.tsv").write_text("t\ta bear\n")
    words = ["evaluate", "--qrels", str(world / "qrels.txt"), "--topics", str(world / "topics.tsv")]
    assert run([*words, "--library", str(world / "lib"), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["topics"], found["gallery"], found["absent"]) == (1, len(ids), 1)
    assert 0 < found["metrics"]["RR@100"]["value"] <= 1
    assert "not in this library: 1 judged picture;" in printed.err


def test_the_demonstration_goes_from_drawings_to_pages(
    demonstration, drawings_are_encoded_once, tmp_path, capsys, monkeypatch
):
    """The collection is the one that is drawn once for all tests."""

    def drawn(folder, *, seed):
        assert seed == 0
        shutil.copytree(demonstration, folder)
        return DemoCollection.read(folder)

    monkeypatch.setattr("limner.research.cli.demo.demo_collection", drawn)
    assert run(["demo", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    pages = sorted((tmp_path / "demo").glob("*.html"))
    assert len(pages) == 6
    alone = (tmp_path / "demo" / "photographs-by-pixels.html").read_text(encoding="utf-8")
    assert "danielbuechele" in alone
    assert "red pagoda" not in alone
    assert "red pagoda" in (tmp_path / "demo" / "photographs.html").read_text(encoding="utf-8")
    counts = [
        tuple(map(int, found))
        for found in re.findall(r"^(\d+) of (\d+) steps got the picture", out, re.MULTILINE)
    ]
    assert [steps for _, steps in counts] == [7, 7, 6, 8, 9, 9]
    row, *drawn, by_captions, by_pixels = (right for right, _ in counts)
    own = out[: out.index("now from a library")]
    assert row >= 6  # all but the step of which there is no picture
    assert "IMG_0105.jpg" in own[own.index("to no step: ") :]  # the photograph among the drawings
    assert sum(drawn) >= 19
    assert by_captions >= 8
    assert by_pixels >= 2
    for page in pages:
        assert page.resolve().as_uri() in out
        assert "data:image/webp" in page.read_text(encoding="utf-8")


def test_an_interruption_is_said_once_and_has_its_status(world, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("limner.library.Library.open", interrupted)
    assert run(["search", "x", "--library", str(world / "lib")]) == 130
    assert capsys.readouterr().err == "limner: interrupted\n"


def test_a_narrow_terminal_wraps_paths_and_cuts_none(world, capsys, monkeypatch):
    from rich.console import Console

    class Narrow(Console):
        def __init__(self):
            super().__init__(width=60, color_system=None)

    words = ["search", "a bear", "--library", str(world / "lib"), "-k", "1"]
    assert run([*words, "--json"]) == 0
    path = json.loads(capsys.readouterr().out)[0]["path"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("rich.console.Console", Narrow)
    assert run(words) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert "".join(row[-3].strip() for row in rows) == path


def test_pins_and_bans_of_a_settings_file_are_written_as_on_the_command_line(world, tmp_path, capsys):
    text = tmp_path / "tale.txt"
    text.write_text("One fine day.\n\nThey went home.\n\nAll slept.")
    pinned, banned = told(world)["pages"][0]["image"], told(world)["pages"][1]["image"]
    settings = tmp_path / "board.toml"
    settings.write_text(f'bans = ["{banned}"]\nmin_probability = 0.0\n[pins]\n1 = "{pinned}"\n2 = "none"\n')
    assert illustrate(world, text, tmp_path / "a.json", "--settings", str(settings)) == 0
    steps = json.loads((tmp_path / "a.json").read_text())["steps"]
    assert [step["origin"] for step in steps][:2] == ["pinned", "blank"]
    assert steps[0]["chosen"]["picture"]["paths"][0].endswith(pinned)
    assert not steps[2]["chosen"]["picture"]["paths"][0].endswith(banned)
    settings.write_text(f'[pins]\n0 = "{pinned}"\n')
    assert illustrate(world, text, tmp_path / "b.json", "--settings", str(settings)) == 2
    assert "steps count from 1" in capsys.readouterr().err


def test_linked_folders_are_entered_only_when_asked(world, tmp_path, capsys):
    shutil.copytree(world / "book" / "images", tmp_path / "kept")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "more").symlink_to(tmp_path / "kept")
    shutil.copy(next((tmp_path / "kept").iterdir()), tmp_path / "pictures")
    words = ["index", str(tmp_path / "pictures"), "--library", str(tmp_path / "lib"), "--encoder", "colour"]
    found = []
    for extra in ([], ["--follow-links"]):
        assert run([*words, "--json", *extra]) == 0
        found.append(json.loads(capsys.readouterr().out)["pictures"])
    assert found[0] == 1 < found[1]


def test_what_the_machine_refuses_is_one_line(world, tmp_path, capsys):
    (tmp_path / "taken").write_text("a file")
    words = [
        "index",
        str(world / "book"),
        "--library",
        str(tmp_path / "taken" / "lib"),
        "--encoder",
        "colour",
    ]
    assert run(words) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "lib: Not a directory" in err
    with pytest.raises(NotADirectoryError):
        run(words, debug=True)


def test_search_says_which_pictures_have_nothing_to_compare(world, tmp_path, capsys):
    images = sorted((world / "book" / "images").iterdir())[:2]
    (tmp_path / "pictures").mkdir()
    for number, image in enumerate(images):
        shutil.copy(image, tmp_path / "pictures" / f"IMG_{number:04}{image.suffix}")
    (tmp_path / "pictures" / "IMG_0000.txt").write_text("a boat on the sea")
    library = str(tmp_path / "lib")
    assert run(["index", str(tmp_path / "pictures"), "--library", library, "--encoder", "colour"]) == 0
    capsys.readouterr()
    assert run(["search", "a boat", "--library", library]) == 0
    out, err = capsys.readouterr()
    assert "1 of 2 pictures left out: nothing to compare with the words" in err
    assert "IMG_0000" in out
    assert "IMG_0001" not in out
