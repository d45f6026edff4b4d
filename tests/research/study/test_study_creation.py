"""Studies from items and storyboards: drawn by name, blind, copied without metadata, whole or not at all."""

import hashlib
import json
import os
import shutil
import stat
from collections import Counter

import numpy as np
import pytest
from PIL import Image, ImageCms
from study_visitors import begin, fields, rate, served

from limner.cli.main import run
from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.files import sha256_of
from limner.records import Board, BoardStep, Candidate, Picture, PictureRef, Step, Story
from limner.research.study.create import (
    QUESTIONS,
    SIDE_PX,
    Copies,
    StudySettings,
    create_study,
    planned_analysis,
)
from limner.research.study.records import PAIR_WORDS, read_study, redrawn
from limner.research.study.sources import boards_material, items_material

NAMES = ("SecretSystem", "OtherSystem")
TRIPLE = ("TrueSystem", *NAMES)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Forty small pictures, p0.png to p39.png."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for number in range(40):
        Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).save(folder / f"p{number}.png")
    return folder


def original(study, name, folder):
    """Name of the file in a folder that a study's copy shows."""

    def unlike(path):
        with Image.open(path) as one, Image.open(study / "pictures" / name) as copy:
            return np.abs(np.asarray(one, dtype=int) - np.asarray(copy, dtype=int)).mean()

    found = min(folder.glob("p*.png"), key=unlike)
    assert unlike(found) < 6, "noise that is compressed"
    return found.name


@pytest.mark.skipif(os.name == "nt", reason="rights of files are those of POSIX")
def test_its_owner_alone_reads_a_study_and_its_votes_whatever_the_umask(pictures, tmp_path):
    before = os.umask(0)
    try:
        study = tmp_path / "new" / "study"
        material = items_material("pairwise", pair_lines(pictures, count=4, same=1), NAMES)
        create_study(study, material, settings())
        with served(study) as (client, _, _):
            assert rate(begin(client()))
            place = {one.name: stat.S_IMODE(one.stat().st_mode) for one in (study, *study.rglob("*"))}
        assert run(["study", "export", str(study), "--to", str(tmp_path / "votes.jsonl")]) == 0
    finally:
        os.umask(before)
    assert {"key.json", "votes.sqlite", "votes.sqlite-wal", "votes.sqlite-shm"} <= place.keys()
    assert {name for name, rights in place.items() if rights == 0o700} == {"study", "pictures"}
    assert set(place.values()) == {0o700, 0o600}
    assert stat.S_IMODE((tmp_path / "votes.jsonl").stat().st_mode) == 0o600


def settings(protocol="pairwise", **values):
    return StudySettings(**{"protocol": protocol, "question": QUESTIONS[protocol], **values})


def pair_lines(folder, *, count=30, same=5):
    """Items t0 …; the first `same` have one picture twice."""
    rows = [
        {
            "id": f"t{n}",
            "text": f"words of {n}",
            "tested": f"p{n}.png",
            "control": f"p{n if n < same else n + 1}.png",
            "stratum": "Story" if n % 2 else "Meta",
        }
        for n in range(count)
    ]
    return written(folder, rows)


def written(folder, rows):
    file = folder / f"items-{hashlib.sha256(repr(rows).encode()).hexdigest()[:8]}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


@pytest.mark.parametrize("protocol", ["pairwise", "tick-all"])
def test_systems_that_agree_everywhere_are_refused_with_what_to_do(pictures, tmp_path, protocol):
    names = {"tested": "p1.png", "control": "p1.png"}
    rows = [{"id": "t0", "text": "words", **names}]
    if protocol == "tick-all":
        rows = [{**rows[0], "truth": "p2.png", "sequence": "s"}]
    material = items_material(protocol, written(tmp_path, rows), NAMES if protocol == "pairwise" else TRIPLE)
    for name in ("p1.png", "p2.png"):
        shutil.copy(pictures / name, tmp_path / name)
    with pytest.raises(DataError, match="for every text; compare other systems"):
        create_study(tmp_path / "new", material, settings(protocol))
    assert not (tmp_path / "new").exists()


def tick_lines(folder, stories=6, steps=4):
    """Stories; step 0 shows one picture by two systems, step 1 one by all three."""
    rows = []
    for story in range(stories):
        for place in range(steps):
            own = (story * steps + place) % 38
            tested = own if place == 1 else own + 1
            control = own if place <= 1 else own + 2
            rows.append(
                {
                    "id": f"s{story}-{place}",
                    "sequence": f"story {story}",
                    "position": place,
                    "text": f"step {place} of {story}",
                    "truth": f"p{own}.png",
                    "tested": f"p{tested}.png",
                    "control": f"p{control}.png",
                }
            )
    return written(folder, rows)


@pytest.mark.slow
def test_pairs_are_registered_blind_and_keyed(pictures, tmp_path):
    material = items_material("pairwise", pair_lines(pictures), NAMES)
    study = create_study(tmp_path / "s", material, settings(size=10, seed=4))
    found = read_study(tmp_path / "s")
    assert found.study == study
    assert {name: (one.population, one.drawn) for name, one in study.sample.strata.items()} == {
        "Meta": (15, 10),
        "Story": (15, 10),
    }
    assert redrawn(found.population)
    judged = {i.id: i for i in found.items if found.key.items[i.id].right is None}
    assert len(judged) == 20
    rows = {
        json.loads(line)["id"]: json.loads(line) for line in pair_lines(pictures).read_text().splitlines()
    }
    sides = Counter()
    for name, item in judged.items():
        entry = found.key.items[name]
        row = rows[entry.source]
        assert item.text == row["text"]
        assert item.stratum == row["stratum"]
        shown = {
            c.id: row[r]
            for c in item.candidates
            for r in [{"A": "tested", "B": "control"}[entry.systems[c.id][0]]]
        }
        assert {c.id: original(tmp_path / "s", c.picture, pictures) for c in item.candidates} == shown
        sides[entry.systems["first"]] += 1
        assert (item.prefilled == "same") == (row["tested"] == row["control"])
    # both systems come first in some items
    assert len(sides) == 2
    assert study.prefilled == sum(item.prefilled is not None for item in judged.values()) > 0
    assert study.items == len(found.items) - study.prefilled
    assert study.checks == sum(entry.right is not None for entry in found.key.items.values())
    assert study.checks == -(-(20 - study.prefilled) // 10)


def test_nothing_that_raters_see_names_a_system_or_a_check(pictures, tmp_path):
    create_study(tmp_path / "s", items_material("pairwise", pair_lines(pictures), NAMES), settings(size=None))
    seen = (tmp_path / "s" / "items.jsonl").read_bytes()
    public = (tmp_path / "s" / "study.json").read_bytes()
    for name in (*NAMES, "tested", "control", "t17"):
        assert f'"{name}'.encode() not in seen
    assert not any(name.encode() in seen + public for name in NAMES)
    # ids are numbers in an order that tells neither strata nor checks
    found = read_study(tmp_path / "s")
    assert [item.id for item in found.items] == [f"i{n:05d}" for n in range(1, len(found.items) + 1)]
    order = [found.key.items[item.id].right is not None for item in found.items]
    assert order != sorted(order)
    assert order != sorted(order, reverse=True)


def test_pairwise_checks_ask_in_the_words_of_the_page_and_take_turns(pictures, tmp_path):
    made = create_study(
        tmp_path / "s", items_material("pairwise", pair_lines(pictures), NAMES), settings(checks=0.2)
    )
    found = read_study(tmp_path / "s")
    checks = [(i, found.key.items[i.id].right) for i in found.items if found.key.items[i.id].right]
    assert len(checks) == made.checks == 5
    assert {right for _, right in checks} == {"neither", "same"}
    for item, right in checks:
        assert PAIR_WORDS[right] in item.text
        assert item.candidates[0].picture != item.candidates[1].picture
        assert item.stratum in made.sample.strata


@pytest.mark.parametrize(("protocol", "answer"), [("pairwise", "prefers"), ("tick-all", "tick")])
def test_the_planned_analysis_is_that_of_the_protocol(protocol, answer):
    registered = planned_analysis(settings(protocol), 40, 2)
    assert any(answer in sentence for sentence in registered)
    assert not any({"prefers": "tick", "tick": "prefers"}[answer] in sentence for sentence in registered)


def test_checks_of_ticks_ask_for_every_picture_or_none(pictures, tmp_path):
    create_study(
        tmp_path / "s",
        items_material("tick-all", tick_lines(pictures), TRIPLE),
        settings("tick-all", size=3, checks=0.5),
    )
    found = read_study(tmp_path / "s")
    due = {item: found.key.items[item.id].right for item in found.items}
    asked = {item: right for item, right in due.items() if right is not None}
    assert {len(right) for right in asked.values()} == {0, len(TRIPLE)}
    for item, right in asked.items():
        assert f"tick {'every' if right else 'no'} picture" in item.text


def test_sequences_are_drawn_whole_and_shared_pictures_shown_once(pictures, tmp_path):
    material = items_material("tick-all", tick_lines(pictures), TRIPLE)
    made = create_study(tmp_path / "s", material, settings("tick-all", size=3, checks=0.5))
    found = read_study(tmp_path / "s")
    assert made.sample.unit == "sequence"
    judged = [item for item in found.items if found.key.items[item.id].right is None]
    stories = Counter(found.key.items[item.id].cluster for item in judged)
    assert sorted(stories.values()) == [4, 4, 4]
    assert set(stories) == set(found.population.strata["all"].drawn)
    for item in judged:
        owners = list(found.key.items[item.id].systems.values())
        assert sorted(letter for letters in owners for letter in letters) == ["A", "B", "C"]
        # step 0: truth and control share; step 1: all share
        assert len(item.candidates) == {0: 2, 1: 1}.get(item.position, 3)
    pages = {}
    for item in found.items:
        pages.setdefault(item.sequence, []).append(item)
    assert len(pages) == 3 + 2
    for page in pages.values():
        assert [item.position for item in page] == list(range(len(page)))
    rights = {found.key.items[page[0].id].right for page in pages.values() if len(page) == 1}
    assert rights == {("a", "b", "c"), ()}
    firsts = {found.key.items[item.id].systems["a"] for item in judged if len(item.candidates) == 3}
    assert len(firsts) > 1


def test_outcomes_cannot_influence_the_draw(pictures, tmp_path):
    rows = [json.loads(line) for line in pair_lines(pictures, same=0).read_text().splitlines()]
    # the same texts, where the tested system finds other pictures, in another order of lines
    other = [{**row, "tested": row["control"], "control": "p0.png"} for row in reversed(rows)]
    for name, own in (("one", rows), ("two", other)):
        material = items_material("pairwise", written(pictures, own), NAMES)
        create_study(tmp_path / name, material, settings(size=6, seed=9))
    one, two = ((tmp_path / name / "population.json").read_bytes() for name in ("one", "two"))
    assert one == two
    assert (tmp_path / "one" / "items.jsonl").read_bytes() != (tmp_path / "two" / "items.jsonl").read_bytes()


def test_the_same_study_is_made_again_byte_by_byte_but_for_its_time(pictures, tmp_path):
    for name in ("one", "two"):
        create_study(tmp_path / name, items_material("pairwise", pair_lines(pictures), NAMES), settings())
    for file in ("items.jsonl", "key.json", "population.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_picture_that_does_not_open_leaves_no_folder(pictures, tmp_path):
    rows = [{"id": "a", "text": "x", "tested": "p0.png", "control": "absent.png"}]
    with pytest.raises(DataError, match=r"absent\.png"):
        create_study(tmp_path / "s", items_material("pairwise", written(pictures, rows), NAMES), settings())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_never_touched(pictures, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine.txt").write_text("keep")
    material = items_material("pairwise", pair_lines(pictures), NAMES)
    with pytest.raises(DataError, match="not an empty folder"):
        create_study(tmp_path / "s", material, settings())
    assert (tmp_path / "s" / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tested": ""}, "tested"),
        ({"truth": "p1.png"}, "truth and sequence must both be given"),
        ({"truth": "p1.png", "sequence": "s"}, "not an item of the pairwise protocol"),
        ({"context": ["other"]}, "context"),
        ({"colour": 1}, "colour"),
    ],
)
def test_wrong_lines_of_items_are_named(pictures, changed, message):
    row = {"id": "a", "text": "x", "tested": "p0.png", "control": "p1.png", **changed}
    with pytest.raises(DataError, match=message) as caught:
        items_material("pairwise", written(pictures, [row]), NAMES)
    assert ":1" in str(caught.value)


def test_items_need_names_and_different_ids(pictures):
    with pytest.raises(ConfigError, match="--names with 2 names"):
        items_material("pairwise", pair_lines(pictures), ())
    row = {"id": "a", "text": "x", "tested": "p0.png", "control": "p1.png"}
    with pytest.raises(DataError, match="appears twice"):
        items_material("pairwise", written(pictures, [row, row]), NAMES)
    with pytest.raises(MissingError):
        items_material("pairwise", pictures / "none.jsonl", NAMES)
    rows = [row, {**row, "id": "b", "stratum": "Story"}]
    material = items_material("pairwise", written(pictures, rows), NAMES)
    with pytest.raises(ConfigError, match="stratum 'all'"):
        create_study(pictures / "x", material, settings())


@pytest.mark.slow
def test_copies_carry_no_metadata_and_fit_a_screen(tmp_path):
    source, waiting, to = tmp_path / "source", tmp_path / "waiting", tmp_path / "to"
    for folder in (source, waiting, to):
        folder.mkdir()
    exif = Image.Exif()
    exif[0x010E] = "SECRET place"
    exif[0x0112] = 6
    Image.new("RGB", (300, 200), "red").save(source / "told.jpg", exif=exif, comment=b"SECRET name")
    Image.new("RGB", (2000, 4000), "blue").save(source / "large.png")
    Image.new("RGB", (30, 20), "green").save(source / "plain.png")
    Image.new("RGB", (30, 20), "green").save(source / "other.bmp")
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    copies = Copies(waiting)
    words = {path.name: copies.add(path) for path in sorted(source.iterdir())}
    words["drawn"] = copies.add(Image.new("RGB", (30, 20), "yellow"))
    names = copies.write(to)
    assert names.keys() == set(words.values())
    named = {name: to / names[word] for name, word in words.items()}
    assert named["plain.png"] == named["other.bmp"], "equal pictures share a copy, whatever their files"
    contents = {path.name: path.read_bytes() for path in to.iterdir()}
    assert {f"{hashlib.sha256(data).hexdigest()}.jpg" for data in contents.values()} == contents.keys()
    assert len({len(data) for data in contents.values()}) == 1
    assert len(contents) == 4
    assert b"SECRET" not in b"".join(contents.values())
    looks = {"told.jpg": ((200, 300), (254, 0, 0)), "plain.png": ((30, 20), (0, 128, 0))}
    looks |= {"large.png": ((SIDE_PX // 2, SIDE_PX), (0, 0, 254)), "drawn": ((30, 20), (255, 255, 0))}
    for name, (size, colour) in looks.items():
        with Image.open(named[name]) as image:
            assert (image.format, image.size, image.info.keys() & {"exif", "comment", "icc_profile"}) == (
                "JPEG",
                size,
                set(),
            )
            assert np.abs(np.subtract(image.getpixel((5, 5)), colour)).max() <= 2
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_colours_are_those_of_the_profile(tmp_path):
    """A profile that swaps red and blue is followed, since the copy has none."""
    bgr = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    red, blue = bgr.index(b"rXYZ"), bgr.index(b"bXYZ")
    swapped = bytearray(bgr)
    swapped[red : red + 4], swapped[blue : blue + 4] = b"bXYZ", b"rXYZ"
    Image.new("RGB", (30, 20), "red").save(tmp_path / "p.png", icc_profile=bytes(swapped))
    for name in ("waiting", "to"):
        (tmp_path / name).mkdir()
    copies = Copies(tmp_path / "waiting")
    copies.add(tmp_path / "p.png")
    (name,) = copies.write(tmp_path / "to").values()
    with Image.open(tmp_path / "to" / name) as image:
        assert np.abs(np.subtract(image.getpixel((5, 5)), (0, 0, 255))).max() <= 3


def board(
    path, folder, numbers, *, story="tale", texts=None, origin="decoded", pinned=(), asked=(), given=()
):
    """Write a storyboard that shows these pictures; None is a blank, asked for at some steps."""
    texts = texts or [f"page {place}" for place in range(len(numbers))]
    steps = []
    for place, number in enumerate(numbers):
        chosen = None
        if number is not None:
            file = folder / f"p{number}.png"
            own = hashlib.sha256(file.read_bytes()).hexdigest()
            shown = Picture(
                id=own,
                paths=("/not/there.png", str(file)),
                width_px=16,
                height_px=12,
                format="PNG",
                size_bytes=1,
                phash="0" * 16,
                group=own,
            )
            chosen = Candidate(picture=shown, score=1.0)
        steps.append(
            BoardStep(
                position=place,
                chosen=chosen,
                origin="blank" if chosen is None else "pinned" if place in pinned else origin,
                blank=None if chosen else "asked for" if place in asked else "nothing fits",
            )
        )
    files = [None if n is None else folder / f"p{n}.png" for n in given]
    refs = [
        () if file is None else (PictureRef(target="x", path=str(file), sha256=sha256_of(file)),)
        for file in files
    ]
    told = Story(
        id=story,
        steps=tuple(
            Step(text=text, pictures=refs[place] if refs else ()) for place, text in enumerate(texts)
        ),
    )
    path.write_text(Board(story=told, steps=tuple(steps)).model_dump_json())
    return path


def test_pairs_of_storyboards(pictures, tmp_path):
    one = [board(tmp_path / f"a{n}.json", pictures, [n, n + 1, n + 2], story=f"tale {n}") for n in (0, 10)]
    two = [board(tmp_path / f"b{n}.json", pictures, [n, 30, 31], story=f"tale {n}") for n in (0, 10)]
    material = boards_material("pairwise", one, two)
    made = create_study(tmp_path / "s", material, settings(size=None, checks=0))
    found = read_study(tmp_path / "s")
    assert (made.items, made.prefilled, made.checks) == (4, 2, 0)
    assert found.key.systems == {"all": {"A": "a0", "B": "b0"}}
    by_source = {found.key.items[item.id].source: item for item in found.items}
    assert set(by_source) == {f"tale {n}#{k}" for n in (0, 10) for k in (1, 2, 3)}
    second = by_source["tale 10#2"]
    assert second.context == ("page 0", "page 1", "page 2")
    assert second.text == second.context[second.position] == "page 1"
    assert found.key.items[second.id].cluster == "tale 10"


def test_tick_all_of_storyboards_takes_the_texts_own_pictures(pictures, tmp_path):
    one = [board(tmp_path / "a.json", pictures, [1, 2], given=(5, 6))]
    two = [board(tmp_path / "b.json", pictures, [3, 4], given=(5, 6))]
    create_study(tmp_path / "s", boards_material("tick-all", one, two), settings("tick-all", checks=0))
    found = read_study(tmp_path / "s")
    assert len(found.items) == 2
    first = found.items[0]
    entry = found.key.items[first.id]
    (side,) = [c.id for c in first.candidates if original(tmp_path / "s", c.picture, pictures) == "p5.png"]
    assert entry.systems[side] == ("A",)
    truth = [board(tmp_path / "t.json", pictures, [7, 8], origin="pinned")]
    create_study(tmp_path / "u", boards_material("tick-all", one, two, truth), settings("tick-all", checks=0))
    told = read_study(tmp_path / "u")
    shown = {original(tmp_path / "u", c.picture, pictures) for c in told.items[0].candidates}
    assert shown == {"p1.png", "p3.png", "p7.png"}


@pytest.mark.slow
def test_a_blank_is_shown_as_what_the_system_chose(pictures, tmp_path):
    one = [board(tmp_path / "a.json", pictures, [1, None, None, 4])]
    two = [board(tmp_path / "b.json", pictures, [5, 6, None, None])]
    made = create_study(tmp_path / "s", boards_material("pairwise", one, two), settings(size=None, checks=0))
    found = read_study(tmp_path / "s")
    by_source = {found.key.items[item.id].source: item for item in found.items}
    assert (made.items, made.prefilled) == (3, 1), "where both are blank there is nothing to ask"
    assert by_source["tale#3"].prefilled == "same"
    assert any("it shows no picture there" in line for line in made.analysis)

    def blanks(step):
        item = by_source[f"tale#{step}"]
        systems = found.key.items[item.id].systems
        return {systems[one.id] for one in item.candidates if one.picture is None}

    assert [blanks(step) for step in (1, 2, 4)] == [set(), {("A",)}, {("B",)}]
    files = {path.name for path in (tmp_path / "s" / "pictures").iterdir()}
    assert len(files) == 4
    with served(tmp_path / "s") as (client, desk, _):
        visitor, seen = begin(client()), 0
        while "unit" in fields(page := visitor.get("/rate").text):
            assert "None" not in page
            count = page.count("Better without a picture")
            assert (page.count('alt="Picture'), page.count('class="zoom"')) == (2 - count,) * 2
            seen += count
            assert visitor.get("/pictures/None").status_code == 404
            assert rate(visitor, "1")
        assert seen == 2
        assert len(desk.votes.votes()) == 3


def test_steps_that_a_person_fixed_are_left_out_by_a_registered_rule(pictures, tmp_path):
    one = [board(tmp_path / "a.json", pictures, [1, 2, None, 4, 5], pinned=[1], asked=[2])]
    two = [board(tmp_path / "b.json", pictures, [6, 7, 8, 9, 10], pinned=[4])]
    made = create_study(tmp_path / "s", boards_material("pairwise", one, two), settings(size=None, checks=0))
    found = read_study(tmp_path / "s")
    assert found.population.strata["all"].population == ("tale#1", "tale#4")
    assert any(line.startswith("3 of 5 steps are not in the population") for line in made.analysis)
    # the texts of the steps left out are still the story around the others
    assert {item.context for item in found.items} == {tuple(f"page {n}" for n in range(5))}
    # what the systems chose elsewhere changes nothing in who is drawn
    other = [board(tmp_path / "c.json", pictures, [11, 2, None, None, 12], pinned=[1], asked=[2])]
    create_study(tmp_path / "t", boards_material("pairwise", other, two), settings(size=None, checks=0))
    one, two = ((tmp_path / name / "population.json").read_bytes() for name in ("s", "t"))
    assert one == two


def test_tick_all_of_storyboards_with_blanks_and_pins(pictures, tmp_path):
    one = [board(tmp_path / "a.json", pictures, [1, None, 3, None])]
    two = [board(tmp_path / "b.json", pictures, [5, 6, 7, None], pinned=[2])]
    truth = [board(tmp_path / "t.json", pictures, [11, 12, 13, 14], origin="pinned")]
    made = create_study(
        tmp_path / "s", boards_material("tick-all", one, two, truth), settings("tick-all", checks=0)
    )
    found = read_study(tmp_path / "s")
    letters = [
        sorted(letter for owners in found.key.items[item.id].systems.values() for letter in owners)
        for item in found.items
    ]
    assert letters == [["A", "B", "C"], ["A", "C"], ["A"]]
    assert [item.position for item in found.items] == [0, 1, 3]
    assert sum("1 of 4 steps" in line or "counts as not ticked" in line for line in made.analysis) == 2
    hollow = [board(tmp_path / "h.json", pictures, [11, None, 13, 14])]
    with pytest.raises(DataError, match="step 2 is blank; expected a true picture"):
        boards_material("tick-all", one, two, hollow)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"numbers": [1, 2]}, {"numbers": [1, 2], "origin": "given"}, "no system chose any"),
        ({"numbers": [1, 2], "origin": "pinned"}, {"numbers": [1, 2]}, "no system chose any"),
        ({"numbers": [1, 2]}, {"numbers": [1, 2], "texts": ["page 0", "else"]}, "different steps"),
    ],
)
def test_boards_that_cannot_be_compared_are_refused(pictures, tmp_path, first, second, message):
    one = board(tmp_path / "a.json", pictures, **first)
    two = board(tmp_path / "b.json", pictures, **second)
    with pytest.raises(LimnerError, match=message):
        boards_material("pairwise", [one], [two])


def test_a_truth_that_is_nowhere_and_a_picture_that_changed_are_refused(pictures, tmp_path):
    one = board(tmp_path / "a.json", pictures, [1])
    two = board(tmp_path / "b.json", pictures, [2])
    with pytest.raises(DataError, match="--truth"):
        boards_material("tick-all", [one], [two])
    with pytest.raises(ConfigError, match="the same number of each"):
        boards_material("pairwise", [one], [two, two])
    with pytest.raises(DataError, match="a second storyboard"):
        boards_material("pairwise", [one, one], [two, two])
    content = json.loads(one.read_text())
    content["steps"][0]["chosen"]["picture"]["id"] = "0" * 64
    one.write_text(json.dumps(content))
    with pytest.raises(DataError, match="missing or has changed"):
        create_study(tmp_path / "s", boards_material("pairwise", [one], [two]), settings())
    one = board(tmp_path / "a.json", pictures, [1], given=[3])
    content = json.loads(one.read_text())
    content["story"]["steps"][0]["pictures"][0]["path"] = str(pictures / "p4.png")
    one.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"p4.png is missing or has changed"):
        create_study(
            tmp_path / "t", boards_material("tick-all", [one], [two]), settings("tick-all", checks=0)
        )
