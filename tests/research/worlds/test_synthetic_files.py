"""What is written can be read again, and the demonstration holds its answers."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from limner.errors import DataError
from limner.match.given_pictures import picture_in
from limner.pictures.metadata import readable_name
from limner.pictures.taking import row_order
from limner.research.worlds import PictureBook, caption, demo, write
from limner.research.worlds.book_files import save, xmp_packet
from limner.research.worlds.demo import demo_collection
from limner.text.read import read

pytestmark = pytest.mark.slow


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shelf")
    stories = PictureBook(8).stories(10, pages=(6, 6))
    write(folder, stories, size_px=32, distractors=2)
    return folder, stories


def test_stories_read_again(shelf):
    folder, stories = shelf
    rows = lines(folder / "stories.jsonl")
    assert [row["story_id"] for row in rows] == [book.story.id for book in stories]
    for row, book in zip(rows, stories, strict=True):
        assert {"title", "license", "author", "illustrator", "split", "cover"} <= set(row)
        assert [page["text"] for page in row["pages"]] == [step.text for step in book.story.steps]
        assert (folder / row["cover"]).is_file()
        for page, truth in zip(row["pages"], book.pages, strict=True):
            assert hashlib.sha256((folder / page["image"]).read_bytes()).hexdigest() == page["sha256"]
            assert page["relations"] == truth.relations


def test_every_picture_has_one_row_and_one_graph(shelf):
    folder, stories = shelf
    files = {f"images/{path.name}" for path in (folder / "images").iterdir()}
    rows, graphs = lines(folder / "metadata.jsonl"), lines(folder / "scene_graphs.jsonl")
    assert len(rows) == len(files) == len(stories) * (1 + 6 + 2)
    assert {row["file_name"] for row in rows} == files
    assert {f"images/{graph['image']}.png" for graph in graphs} == files
    assert all(row["text"] and row["credit"] and row["license"] for row in rows)
    assert sorted({row["role"] for row in rows}) == ["cover", "distractor", "page"]


def test_answers_name_the_pages_and_splits_are_disjoint(shelf):
    folder, _ = shelf
    answers = json.loads((folder / "answers.json").read_text())
    owners = {}
    for row in lines(folder / "stories.jsonl"):
        assert answers[row["story_id"]]["pictures"] == [page["image"] for page in row["pages"]]
    for row in lines(folder / "metadata.jsonl"):
        owners.setdefault(row["sha256"], set()).add(row["split"])
        assert row["split"] == answers[row["story_id"]]["split"]
    assert all(len(splits) == 1 for splits in owners.values())
    assert {split for splits in owners.values() for split in splits} == {"train", "val", "test"}


@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize("carrier", ["exif", "xmp", "sidecar", "none"])
def test_captions_travel_as_asked(tmp_path, suffix, carrier):
    path = tmp_path / f"a.{suffix}"
    digest = save(Image.new("RGB", (16, 16), (9, 9, 9)), path, "a fox & a <hen>", "Q. Uill", carrier)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    with Image.open(path) as picture:
        picture.load()
        exif = picture.getexif()
        assert exif.get(0x010E) == ("a fox & a <hen>" if carrier == "exif" else None)
        assert exif.get(0x013B) == ("Q. Uill" if carrier == "exif" else None)
        packet = picture.info.get("xmp") or picture.info.get("XML:com.adobe.xmp") or b""
        packet = packet.encode() if isinstance(packet, str) else packet
        assert (b"a fox &amp; a &lt;hen&gt;" in packet) == (carrier == "xmp")
    assert (tmp_path / "a.txt").exists() == (carrier == "sidecar")


def test_the_xmp_packet_is_well_formed():
    from defusedxml.ElementTree import fromstring

    root = fromstring(xmp_packet("soup & <bread>", "A", "CC0"))
    texts = [node.text for node in root.iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")]
    assert texts == ["soup & <bread>", "A", "CC0"]


def test_wrong_requests_are_refused(tmp_path):
    stories = PictureBook(0).stories(1)
    with pytest.raises(DataError, match=r"unknown place for captions 'exiff'; did you mean 'exif'\?"):
        write(tmp_path, stories, captions="exiff")
    with pytest.raises(DataError, match="unknown picture format 'gif'"):
        write(tmp_path, stories, suffix="gif")
    with pytest.raises(DataError, match="no stories to write"):
        write(tmp_path, [])
    (tmp_path / "stories.jsonl").write_text("")
    with pytest.raises(DataError, match=r"already contains a stories\.jsonl"):
        write(tmp_path, stories)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return demo_collection(tmp_path_factory.mktemp("demo"), size_px=32)


def test_the_demonstration_is_of_the_promised_size(shown):
    pictures = [p for p in shown.pictures.rglob("*") if p.suffix in (".jpg", ".png")]
    assert 60 <= len(pictures) <= 80
    assert len({p.read_bytes() for p in pictures}) == len(pictures)
    assert [text.suffix for text in shown.texts] == [".md", ".html", ".txt", ".md"]


def test_demo_answers_match_the_texts(shown):
    used = []
    for text in shown.texts:
        answers = shown.answers[text.name]
        assert len(read(text).story.steps) == len(answers)
        folder = shown.photographs if text.stem == "photographs" else shown.pictures
        used += [folder / name for name in answers if name]
    assert len(set(used)) == len(used) == 28
    assert all(path.is_file() for path in used)
    assert [sum(name is None for name in answers) for answers in shown.answers.values()] == [0, 0, 1, 1]
    assert json.loads((shown.pictures.parent / "answers.json").read_text())["library"] == shown.answers


def test_the_row_of_the_demonstration_lies_in_the_order_of_taking(shown):
    text, folder = shown.row
    assert text in shown.texts
    files = sorted(folder.iterdir())
    taken = [picture_in(str(path)).taken for path in files]
    assert taken == sorted(set(taken))
    due = [name for names in shown.row_answers for name in names]
    assert due == sorted(due)
    assert [len(names) for names in shown.row_answers] == [1, 2, 1, 1, 0, 2, 1]
    assert {path.name for path in files} - set(due) == {"IMG_0105.jpg"}  # the photograph among the drawings


def test_names_of_the_library_state_neither_content_nor_order(shown):
    for folder in (shown.photographs, *shown.pictures.iterdir()):
        files = [path for path in folder.iterdir() if path.suffix in (".jpg", ".png")]
        assert not any(readable_name(path.stem) for path in files)
        assert row_order([picture_in(str(path)) for path in files]) is None


def test_demo_texts_do_not_repeat_the_captions(shown):
    texts = {text.stem: text.read_text(encoding="utf-8").lower() for text in shown.texts}
    for folder, text, length in (
        (shown.pictures / "shore", texts["the-far-shore"], 5),
        (shown.photographs, texts["photographs"], 4),
    ):
        for row in lines(folder / "metadata.jsonl"):
            words = row["text"].split()
            assert not any(" ".join(words[i : i + length]) in text for i in range(len(words) - length + 1))


def test_every_photograph_has_its_terms_beside_it_and_in_the_notice(shown):
    notice = (Path(__file__).parents[3] / "NOTICE").read_text(encoding="utf-8")
    shipped = sorted(Path(demo.__file__).with_name("photographs").iterdir())
    rows = lines(shown.photographs / "metadata.jsonl")
    for path, row in zip(shipped, rows, strict=True):
        told = notice.partition(f"\nresearch/worlds/photographs/{path.name}\n")[2]
        entry = told.partition("\n\n")[0].lower()
        assert row["credit"].split()[0].strip(",").lower() in entry
        assert row["license"].lower() in entry
        assert (shown.photographs / row["file_name"]).read_bytes() == path.read_bytes()


def test_the_demonstration_is_the_same_in_another_process(shown, tmp_path):
    code = (
        f"from limner.research.worlds import demo; demo.demo_collection({str(tmp_path / 'd')!r}, size_px=32)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

    def digest(root):
        files = sorted(p for p in root.rglob("*") if p.is_file())
        return [(p.relative_to(root).as_posix(), hashlib.sha256(p.read_bytes()).hexdigest()) for p in files]

    assert digest(tmp_path / "d") == digest(shown.pictures.parent)


def test_a_second_call_replaces_and_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(DataError, match="neither empty nor an earlier demonstration"):
        demo_collection(tmp_path, size_px=32)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    root = tmp_path / "new"
    demo_collection(root, size_px=16)
    stray = root / "pictures" / "stray.jpg"
    stray.write_bytes(b"x")
    demo_collection(root, size_px=16)
    assert not stray.exists()


@pytest.mark.parametrize("seed", range(5))
def test_look_alikes_are_found_whatever_the_seed(seed):
    for plan in demo._plans():
        book = demo._book(plan.title, plan.leaves, plan.cast, plan.style)
        crowd = demo._crowd(book, seed, 8)
        assert [page for _, page in crowd] == [*range(len(book.pages)), *[None] * 8]
        assert len({caption(scene) for scene, _ in crowd}) == len(crowd)
