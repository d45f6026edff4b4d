"""COCO, GoodNews, Politics, Conceptual Captions and captioned folders become pairs without relations."""

import json
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.errors import DataError, MissingError
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.coco import read_coco
from limner.research.datasets.sets.conceptual import read_conceptual
from limner.research.datasets.sets.folder import read_captioned_folder
from limner.research.datasets.sets.goodnews import read_goodnews
from limner.research.datasets.sets.politics import read_politics
from limner.research.datasets.splits import split_pairs

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(str.strip)
LONG = "One sentence about a law. Another about a vote. " + "And a third that goes on and on. " * 20


def picture(path, shade=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 40), (shade, 10, 200)).save(path)


def write(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def released(folder, half, captions):
    """`captions`: picture id → its captions."""
    images = [{"id": n, "file_name": f"{n}.jpg", "license": 1} for n in captions]
    notes = [{"id": 9, "image_id": n, "caption": text} for n, texts in captions.items() for text in texts]
    return write(folder / f"captions_{half}.json", {"info": {}, "images": images, "annotations": notes})


def karpathy(folder, rows):
    images = [
        {
            "cocoid": n,
            "filename": f"{n}.jpg",
            "filepath": half,
            "split": split,
            "sentences": [{"raw": text, "tokens": []} for text in texts],
        }
        for n, half, split, texts in rows
    ]
    return write(folder / "dataset_coco.json", {"dataset": "coco", "images": images})


def test_coco_as_released_has_no_split_and_one_caption(tmp_path):
    released(tmp_path, "train2014", {1: ["a", "b"], 2: ["c"], 5: []})
    released(tmp_path, "val2014", {3: ["d", "e"]})
    data = read_coco(Source(tmp_path))
    assert [pair.image for pair in data.pairs] == ["1.jpg", "2.jpg", "3.jpg"]
    assert {pair.split for pair in data.pairs} == {""}
    assert [pair.meta["half"] for pair in data.pairs] == ["train2014", "train2014", "val2014"]
    assert data.notes == ("coco: pictures without a caption left out: 1",)
    every = read_coco(Source(tmp_path, every=True))
    assert [pair.text for pair in every.pairs] == ["a", "b", "c", "d", "e"]


def test_karpathy_states_splits_and_restval_is_train(tmp_path):
    file = karpathy(
        tmp_path,
        [(1, "val2014", "restval", ["a"]), (2, "train2014", "train", ["b"]), (3, "val2014", "test", ["c"])],
    )
    assert [pair.split for pair in read_coco(Source(file)).pairs] == ["train", "train", "test"]
    for n, half in ((1, "val2014"), (2, "train2014")):
        picture(tmp_path / "images" / half / f"{n}.jpg")
    found = read_coco(Source(file, pictures=tmp_path / "images", missing="drop"))
    assert [pair.image for pair in found.pairs] == [
        str(tmp_path / "images" / half / name)
        for half, name in (("val2014", "1.jpg"), ("train2014", "2.jpg"))
    ]
    assert [one.id for one in found.missing] == ["coco-3-0"]
    assert found.notes == ("coco: 1 pair left out: no such file",)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    captions=st.dictionaries(st.integers(0, 10**6), st.lists(WORDS, min_size=1, max_size=5), min_size=2),
    seed=st.integers(0, 5),
)
def test_the_one_caption_of_a_picture_depends_on_seed_and_picture_alone(captions, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coco")
    whole = read_coco(Source(released(folder, "train2014", captions), seed=seed)).pairs
    assert [pair.image for pair in whole] == [f"{n}.jpg" for n in captions]
    assert all(pair.text in captions[int(pair.image[:-4])] for pair in whole)
    half = dict(list(captions.items())[::2])
    part = read_coco(Source(released(folder, "train2014", half), seed=seed)).pairs
    assert part == whole[::2]


def test_the_seed_chooses_among_captions(tmp_path):
    file = released(tmp_path, "train2014", {n: ["a", "b", "c", "d", "e"] for n in range(200)})
    texts = [[pair.text for pair in read_coco(Source(file, seed=seed)).pairs] for seed in (0, 1)]
    assert texts[0] != texts[1]
    assert all(20 <= texts[0].count(letter) <= 60 for letter in "abcde")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("[", "expected an object"),
        ({"images": []}, "annotations"),
        ({"images": [], "annotations": [{"image_id": 1, "caption": "x"}]}, "which is not in images"),
        ({"images": [{"id": 1, "file_name": "a"}] * 2, "annotations": []}, "is repeated"),
        ({"images": [{"id": 1, "file_name": 3}], "annotations": []}, "file_name"),
    ],
)
def test_bad_coco_is_refused_in_one_line(value, match, tmp_path):
    file = tmp_path / "captions_train2014.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    with pytest.raises(DataError, match=match) as caught:
        read_coco(Source(file))
    assert "\n" not in str(caught.value)
    with pytest.raises(MissingError):
        read_coco(Source(tmp_path / "nowhere.json"))


def news(folder, articles):
    return write(folder / "captioning_dataset.json", articles)


def test_goodnews_is_grouped_by_article(tmp_path):
    news(
        tmp_path,
        {
            f"a{n}": {
                "images": {"0": f"caption {n}", "1": f"other {n}", "2": " "},
                "headline": {"main": "Head"},
                "article": "Long. " * 50,
                "article_url": "http://n/1",
            }
            for n in range(20)
        },
    )
    data = read_goodnews(Source(tmp_path))
    assert len(data.pairs) == 40
    assert (data.pairs[1].image, data.pairs[1].seq, data.pairs[1].pos) == ("a0_1.jpg", "a0", 1)
    assert data.pairs[0].meta == {"headline": "Head", "article_url": "http://n/1"}
    assert len({pair.image_id for pair in data.pairs}) == 40
    assert data.notes == ("goodnews: pictures without a caption left out: 20",)
    sides = defaultdict(set)
    for pair in split_pairs(data).pairs:
        sides[pair.seq].add(pair.split)
    assert all(len(side) == 1 for side in sides.values())


@settings(max_examples=30, deadline=None)
@given(
    articles=st.dictionaries(
        WORDS,
        st.dictionaries(st.integers(0, 9).map(str), WORDS, min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    )
)
def test_goodnews_keeps_every_caption_as_written(articles, tmp_path_factory):
    file = news(
        tmp_path_factory.mktemp("news"), {name: {"images": images} for name, images in articles.items()}
    )
    found = [(pair.seq, pair.text) for pair in read_goodnews(Source(file)).pairs]
    assert found == [(name, text) for name, images in articles.items() for text in images.values()]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"a": {"images": {"0": "x"}', "not JSON"),
        ("[1]", "no article"),
        ("{}", "no article"),
        ('{"a": {"headline": "x"}}', "images: Field required"),
        ('{"a": {"images": {"0": 3}}}', "article 'a'"),
        ('{"a": {"images": {}}, "a": {"images": {}}}', "appears twice"),
        ("", "not JSON"),
    ],
)
def test_bad_goodnews_is_refused_in_one_line(text, match, tmp_path):
    (tmp_path / "captioning_dataset.json").write_text(text)
    with pytest.raises(DataError, match=match) as caught:
        read_goodnews(Source(tmp_path))
    assert "\n" not in str(caught.value)


def test_politics_takes_two_sentences_of_long_texts(tmp_path):
    items = [
        {"local_path": "x/a.jpg", "content_text": LONG},
        {"local_path": "b.jpg", "content_text": "Short."},
    ]
    data = read_politics(Source(write(tmp_path / "p.json", {"left": {"taxes": items}})))
    (pair,) = data.pairs
    assert pair.text == "One sentence about a law. Another about a vote."
    assert (pair.image, pair.meta["politics"], pair.meta["issue"]) == ("x/a.jpg", "left", "taxes")
    assert data.notes == ("politics: texts of at most 500 characters left out: 1",)
    lines = [
        {"politics": "left", "issue": "taxes", "local_path": f"{n}.jpg", "content_text": LONG, "split": split}
        for n, split in enumerate(("train", "test"))
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = read_politics(Source(tmp_path / "p.jsonl")).pairs
    assert [one.split for one in found] == ["train", "test"]
    assert found[0].seq == found[1].seq


def test_exactly_500_characters_are_too_few(tmp_path):
    for length, kept in ((500, 0), (501, 1)):
        item = {"local_path": "a.jpg", "content_text": "x" * length}
        file = write(tmp_path / f"{length}.json", {"left": {"taxes": [item]}})
        if kept:
            assert len(read_politics(Source(file)).pairs) == 1
        else:
            with pytest.raises(DataError, match="no text of more than 500"):
                read_politics(Source(file))


@pytest.mark.parametrize("name", ["set.pkl", "set.json", "set.jsonl"])
def test_a_pickle_is_refused_and_never_run(name, tmp_path, executable_payload):
    proof = tmp_path / "proof"
    (tmp_path / name).write_bytes(executable_payload(proof))
    for read in (read_politics, read_coco, read_goodnews, read_conceptual):
        with pytest.raises(DataError):
            read(Source(tmp_path / name))
    (tmp_path / name).write_bytes(b"\x80\x04" + executable_payload(proof))
    for read in (read_politics, read_coco, read_goodnews, read_conceptual):
        with pytest.raises(DataError, match="pickle"):
            read(Source(tmp_path / name))
    assert not proof.exists()


@pytest.mark.parametrize(
    "line",
    [
        "[1]",
        "{",
        '{"local_path": "a"}',
        '{"politics": "l", "issue": "i", "local_path": "a", "content_text": 1}',
    ],
)
def test_bad_lines_of_politics_name_their_place(line, tmp_path):
    (tmp_path / "p.jsonl").write_text(line)
    with pytest.raises(DataError, match=r"p\.jsonl:1"):
        read_politics(Source(tmp_path / "p.jsonl"))


def test_conceptual_counts_dead_links(tmp_path):
    (tmp_path / "c.tsv").write_text('a "quoted dog\thttp://x/1\na cat\thttp://x/2\na cat again\thttp://x/2\n')
    for row in (1,):
        picture(tmp_path / "images" / f"{row}.jpg")
    found = read_conceptual(Source(tmp_path / "c.tsv", pictures=tmp_path / "images", missing="drop"))
    assert [pair.text for pair in found.pairs] == ["a cat", "a cat again"]
    assert [one.id for one in found.missing] == ["conceptual-0"]
    assert read_conceptual(Source(tmp_path / "c.tsv")).pairs[0].text == 'a "quoted dog'
    with pytest.raises(DataError, match="1 of 3 pairs lack"):
        read_conceptual(Source(tmp_path / "c.tsv", pictures=tmp_path / "images"))


@pytest.mark.parametrize("text", ["", "caption only\n", "a\tb\tc\n", "\thttp://x\n", "a\t\n"])
def test_bad_conceptual_is_refused(text, tmp_path):
    (tmp_path / "c.tsv").write_text(text)
    with pytest.raises(DataError, match=r"c\.tsv"):
        read_conceptual(Source(tmp_path / "c.tsv"))


def test_a_captioned_folder(tmp_path):
    for name in ("train/1.png", "train/2.png", "test/3.png", "validation/4.png", "5.png", "6.png"):
        picture(tmp_path / name)
    rows = [{"file_name": f"{n}.png", "text": f"words {n}"} for n in (1, 2, 7)]
    (tmp_path / "train/metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test/metadata.csv").write_text("file_name,text\n3.png,third\n")
    (tmp_path / "validation/4.txt").write_text("fourth")
    (tmp_path / "5.json").write_text(json.dumps({"captions": ["fifth", "also fifth"]}))
    with pytest.raises(DataError, match="1 of 6 pairs lack"):
        read_captioned_folder(Source(tmp_path))
    data = read_captioned_folder(Source(tmp_path, missing="drop"))
    assert {(pair.text, pair.split) for pair in data.pairs} == {
        ("words 1", "train"),
        ("words 2", "train"),
        ("third", "test"),
        ("fourth", "val"),
        ("fifth", ""),
    }
    assert [one.image for one in data.missing] == ["train/7.png"]
    assert any("1 picture without a caption" in note for note in data.notes)
    every = read_captioned_folder(Source(tmp_path, missing="drop", every=True))
    assert "also fifth" in {pair.text for pair in every.pairs}


def test_a_folder_without_captions_or_with_a_bad_table_is_refused(tmp_path):
    picture(tmp_path / "a/1.png")
    with pytest.raises(DataError, match="no picture has a caption"):
        read_captioned_folder(Source(tmp_path / "a"))
    (tmp_path / "a/metadata.jsonl").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_captioned_folder(Source(tmp_path / "a"))
    with pytest.raises(MissingError):
        read_captioned_folder(Source(tmp_path / "nowhere"))


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.from_regex(r"[a-z]{3,8}( [a-z]{2,6}){1,3}", fullmatch=True), min_size=1, max_size=5))
def test_every_line_of_a_table_is_a_pair(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    for n, _ in enumerate(texts):
        picture(folder / f"{n}.png")
    rows = [{"file_name": f"{n}.png", "text": text} for n, text in enumerate(texts)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = read_captioned_folder(Source(folder))
    assert [pair.text for pair in data.pairs] == texts
