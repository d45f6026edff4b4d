"""CITE, CITE++ and Clue become one form, and their splits part no group."""

import csv
import io
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.errors import ConfigError, DataError, MissingError
from limner.research.datasets.pairs import Pair, PairSet, Source, identities, text_id
from limner.research.datasets.sets import cite, clue
from limner.research.datasets.splits import pair_groups, split_pairs

LONG = "one two three four five six seven eight"
CITE_HEADER = [
    "",
    "Index",
    *(f"q{n}_resp" for n in (10, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
    "qimg",
    "stim_id",
    "stim_txt",
]
CITE_HEADER.append("complement")
QUOTE = '"'
CLUE_HEADER = ["caption", "url", *clue.RELATIONS, "Other", "When", "Where", "How", "Comment"]


def cite_row(number, text, image, bits="1000000", stim="9_1"):
    answers = [["False", "True"][int(bit)] for bit in bits]
    # q10, q1 and q9 are not labels: q1 holds free text with entities, the others are mostly empty
    return [number, number * 3, "", "a &amp; b", *answers, "", image, stim, text, "rest"]


def write_csv(path, header, rows, delimiter=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, delimiter=delimiter)
        lines.writerows([header, *rows])
    return path


def write_cite(folder, rows):
    write_csv(folder / "data.csv", CITE_HEADER, rows, "|")
    return folder


def clue_line(caption, url, bits="100000", *, other=0, when=0, where=0, how=0, comment=""):
    return [caption, url, *bits, other, when, where, how, comment]


def quote(comment):
    return QUOTE + comment.replace(QUOTE, 2 * QUOTE) + QUOTE if QUOTE in comment else comment


def write_clue(folder, lines, test):
    """Both forms of the same rows; `test` names the TSV rows that are test."""
    # the TSV quotes nothing but a comment that holds quotation marks
    quoted = [[*line[:-1], quote(line[-1])] for line in lines]
    text = "\n".join("\t".join(map(str, line)) for line in [CLUE_HEADER, *quoted]) + "\n"
    (folder / clue.TSV_NAME).write_text(text, encoding="utf-8")
    header = ["", "index", *CLUE_HEADER[:10], "How", "Where", "Comment"]
    for split, name in clue.CSV_NAMES.items():
        rows = []
        for index, line in enumerate(lines):
            if (index in test) == (split == "test"):
                # the release puts Where under How and How under Where
                rows.append([len(rows), index, *line[:10], line[10], line[11], line[12] or "False"])
        write_csv(folder / name, header, rows)
    urls = dict.fromkeys(line[1] for line in lines)
    (folder / clue.MAP_NAME).write_text(json.dumps({url: n for n, url in enumerate(urls)}))
    return folder


def jpeg(path):
    file = io.BytesIO()
    Image.effect_noise((32, 32), 40).convert("RGB").save(file, "JPEG")
    path.write_bytes(file.getvalue())


CLUE_LINES = [
    clue_line('a "quoted" word', "http://a/1?x=1,2", "100000", where=1),
    clue_line("the view", "http://a/2", "010010", how=1, comment='is it "our" view'),
    clue_line("image may contain sky", "http://a/2", "000001", other=1, when=1),
    clue_line("image may contain sky", "http://a/3", "000000"),
]


def test_cite_rows_become_pairs(tmp_path):
    rows = [
        cite_row(0, "Spread it | evenly, with care.", "1.png", "0100001", "31372"),
        cite_row(1, "Stir.", "apple-pie-2_10_3.jpg", "1010101", "77_10"),
    ]
    found = cite.read_cite(Source(write_cite(tmp_path, rows)))
    assert found.relations == (
        "Expansion",
        "ImageNeeded",
        "Elaboration_t",
        "Elaboration_i-tool",
        "Temporal i<t",
        "Temporal i>t",
        "Temporal i=t",
    )
    first, second = found.pairs
    assert first.text == "Spread it | evenly, with care."
    assert (first.seq, first.pos) == ("", None)
    assert (second.seq, second.pos) == ("apple-pie-2", 10)
    assert second.meta == {"row": 1, "index": "3", "stim_id": "77_10"}
    assert [list(pair.labels.values()) for pair in found.pairs] == [
        [0, 1, 0, 0, 0, 0, 1],
        [1, 0, 1, 0, 1, 0, 1],
    ]
    assert not any(pair.split for pair in found.pairs)


def test_cite_reads_pictures_where_asked(tmp_path):
    rows = [cite_row(n, f"step {n}", f"pie_{n}_0.jpg") for n in range(3)]
    write_cite(tmp_path, rows)
    (tmp_path / "images").mkdir()
    jpeg(tmp_path / "images" / "pie_0_0.jpg")
    with pytest.raises(DataError, match="2 of 3 pairs lack"):
        cite.read_cite(Source(tmp_path, pictures=tmp_path / "images"))
    found = cite.read_cite(Source(tmp_path, pictures=tmp_path / "images", missing="drop"))
    assert [pair.id for pair in found.pairs] == ["row-0"]
    assert len(found.pairs[0].image_hash) == 64
    assert [one.id for one in found.missing] == ["row-1", "row-2"]


def test_cite_plus_is_two_files_with_their_split(tmp_path):
    header = ["stim_txt", "qimg", *(f"q{n}_resp" for n in range(2, 9))]
    write_csv(tmp_path / "train.csv", header, [["Mix, then rest.", "x_1_0.jpg", *["True"] * 7]])
    write_csv(tmp_path / "test.csv", header, [["Bake.", "y_2_0.jpg", *["False"] * 7]])
    found = cite.read_cite_plus(Source(tmp_path))
    assert [(pair.id, pair.text, pair.split, pair.seq) for pair in found.pairs] == [
        ("train-0", "Mix, then rest.", "train", "x"),
        ("test-0", "Bake.", "test", "y"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: [*row[:4], "yes", *row[5:]], "row 0: q2_resp is 'yes', expected False or True"),
        (lambda row: row[:-1], r"data.csv:2: 15 fields, expected 16"),
        (lambda row: [*row[:14], " ", row[15]], "stim_txt or qimg is empty"),
    ],
)
def test_a_wrong_cite_row_is_one_clear_error(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        cite.read_cite(Source(write_cite(tmp_path, [change(cite_row(0, "Stir.", "a_1_0.jpg"))])))


@pytest.mark.slow
def test_wrong_files_are_named(tmp_path):
    with pytest.raises(MissingError, match=r"no data\.csv in it or below"):
        cite.read_cite(Source(tmp_path))
    (tmp_path / "data.csv").write_text("a|b\n1|2\n")
    with pytest.raises(DataError, match="lacks Index, stim_id"):
        cite.read_cite(Source(tmp_path))
    write_cite(tmp_path, [])
    with pytest.raises(DataError, match="no rows"):
        cite.read_cite(Source(tmp_path))
    (tmp_path / "data.csv").write_bytes(b"\xff")
    with pytest.raises(DataError, match="byte 0 is not UTF-8"):
        cite.read_cite(Source(tmp_path))


def test_both_forms_of_clue_agree_and_the_swap_is_put_right(tmp_path):
    write_clue(tmp_path, CLUE_LINES, test={1, 3})
    tsv = clue.read_clue_tsv(Source(tmp_path))
    csvs = clue.read_clue(Source(tmp_path))
    assert tsv.relations == csvs.relations == clue.RELATIONS
    assert csvs.notes == (clue.SWAP_NOTE,)
    by_id = {pair.id: pair for pair in csvs.pairs}
    for pair in tsv.pairs:
        assert by_id[pair.id].model_copy(update={"split": ""}) == pair
    assert by_id["clue-0"].meta["where"] == 1
    assert by_id["clue-0"].meta["how"] == 0
    assert by_id["clue-1"].meta["how"] == 1
    assert by_id["clue-1"].meta["comment"] == 'is it "our" view'
    assert by_id["clue-0"].meta["comment"] == ""
    assert {pair.id for pair in csvs.split("test")} == {"clue-1", "clue-3"}
    assert tsv.pairs[0].text == 'a "quoted" word'
    assert list(by_id["clue-1"].labels.values()) == [0, 1, 0, 0, 1, 0]


def test_the_origin_of_a_text_follows_the_threshold(tmp_path, monkeypatch):
    write_clue(tmp_path, CLUE_LINES, test={1})
    monkeypatch.setattr(clue, "MODEL_FROM", 2)
    found = clue.read_clue_tsv(Source(tmp_path))
    assert [pair.meta["origin"] for pair in found.pairs] == ["human", "human", "model", "model"]


def test_clue_pictures_are_found_by_number(tmp_path):
    write_clue(tmp_path, CLUE_LINES, test={1})
    (tmp_path / "images").mkdir()
    for number in (0, 1):
        jpeg(tmp_path / "images" / f"{number}.jpg")
    found = clue.read_clue(Source(tmp_path, pictures=tmp_path / "images", missing="drop"))
    assert sorted(pair.id for pair in found.pairs) == ["clue-0", "clue-1", "clue-2"]
    assert [(one.id, one.image) for one in found.missing] == [("clue-3", "2.jpg")]
    assert {pair.image for pair in found.pairs} == {str(tmp_path / "images" / f"{n}.jpg") for n in (0, 1)}
    assert all(pair.meta["url"].startswith("http://a/") for pair in found.pairs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "one JSON object"),
        ('{"a": 1.5}', "one JSON object"),
        ('{"a": 1, "b": 1}', "belongs to two URLs"),
        ('{"a": -1}', "negative"),
        ("not json", "one JSON object"),
    ],
)
def test_a_wrong_map_is_one_clear_error(tmp_path, text, message):
    (tmp_path / clue.MAP_NAME).write_text(text)
    with pytest.raises(DataError, match=message):
        clue.wanted(tmp_path)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\t"), min_size=1, max_size=20).filter(
    str.strip
)


@given(st.lists(st.tuples(cells, cells, st.text("01", min_size=6, max_size=6)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_no_caption_is_lost_or_changed(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("clue")
    lines = [clue_line(caption, url, bits) for caption, url, bits in rows]
    write_clue(folder, [*lines, clue_line("last", "http://z")], test={len(lines)})
    for read in (clue.read_clue_tsv, clue.read_clue):
        found = read(Source(folder)).pairs
        assert [(p.text, p.image, "".join(map(str, p.labels.values()))) for p in found][:-1] == rows


def made_up(number, seed=0, sequences=False):
    """Rows with repeated pictures, long texts, short texts and, if wanted, recipes."""
    random = np.random.default_rng(seed)
    pairs = []
    for row in range(number):
        image, text = random.integers(number * 2), random.integers(number * 2)
        short = random.random() < 0.3
        pairs.append(
            Pair(
                id=str(row),
                text=f"short {text % 5}" if short else f"{LONG} {text}",
                image=f"{image}.jpg",
                seq=f"recipe {row // 3}" if sequences else "",
                labels={"a": int(random.random() < 0.5)},
            )
        )
    return PairSet("made-up", ("a",), tuple(pairs))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("sequences", [False, True])
def test_a_grouped_split_parts_no_picture_long_text_pair_or_recipe(seed, sequences):
    found = split_pairs(made_up(300, seed, sequences), "grouped", seed)
    homes = {}
    for pair in found.pairs:
        keys = [("image", pair.image), ("group", pair.group)]
        if len(pair.text.split()) >= 8:
            keys.append(("text", text_id(pair.text)))
        if pair.seq:
            keys.append(("recipe", pair.seq))
        for key in keys:
            assert homes.setdefault(key, pair.split) == pair.split


def test_equal_texts_and_pictures_have_equal_numbers():
    rows = [("Stir.", "a"), ("stir. ", "b"), ("Bake.", "a"), ("Mix.", "c")]
    texts, images = identities(
        [Pair(id=str(n), text=text, image=image) for n, (text, image) in enumerate(rows)]
    )
    assert texts.tolist() == [0, 0, 1, 2]
    assert images.tolist() == [0, 1, 0, 2]
    assert texts.dtype == images.dtype == np.int64


def test_strict_parts_no_short_text_either():
    data = made_up(400)
    lenient = split_pairs(data, "grouped")
    homes = {}
    for pair in lenient.pairs:
        homes.setdefault(text_id(pair.text), set()).add(pair.split)
    assert max(map(len, homes.values())) > 1
    groups, strict = pair_groups(data.pairs), pair_groups(data.pairs, strict=True)
    assert len(set(strict)) < len(set(groups))
    homes = {}
    for pair, group in zip(data.pairs, strict, strict=True):
        assert homes.setdefault(text_id(pair.text), group) == group


def test_the_same_seed_gives_the_same_split_and_another_gives_another():
    data = made_up(200)
    for kind in ("grouped", "random"):
        one, two, other = (split_pairs(data, kind, seed).pairs for seed in (1, 1, 2))
        assert one == two
        assert one != other


def test_a_released_split_keeps_test_and_cuts_validation_off_by_group():
    data = made_up(300)
    pairs = tuple(
        pair.model_copy(update={"split": "test" if row >= 240 else "train"})
        for row, pair in enumerate(data.pairs)
    )
    found = split_pairs(PairSet("x", ("a",), pairs), "released")
    assert [pair.id for pair in found.split("test")] == [str(row) for row in range(240, 300)]
    assert abs(len(found.split("val")) - 24) <= 2
    val = {pair.image for pair in found.split("val")}
    assert not val & {pair.image for pair in found.split("train")}
    with pytest.raises(DataError, match="state no split"):
        split_pairs(data, "released")


def test_wrong_wishes_are_refused():
    data = made_up(20)
    with pytest.raises(ConfigError, match="did you mean 'grouped'"):
        split_pairs(data, "group")
    with pytest.raises(DataError, match="no pair of split 'val'"):
        data.split("val")


@pytest.mark.slow
@pytest.mark.shared
def test_the_real_clue_index_matches_the_tsv_and_groups_are_as_measured(shared_data):
    found = clue.read_clue(Source(shared_data / "clue"))
    rows = {pair.id: pair for pair in clue.read_clue_tsv(Source(shared_data / "clue")).pairs}
    assert (len(found.pairs), len(rows)) == (7559, 7747)
    for pair in found.pairs:
        assert rows[pair.id] == pair.model_copy(update={"split": ""})
    assert (len(found.split("train")), len(found.split("test"))) == (6047, 1512)
    assert max(Counter(pair_groups(found.pairs)).values()) == 63
    assert max(Counter(pair_groups(found.pairs, strict=True)).values()) == 1256
    human = [pair.image for pair in rows.values() if pair.meta["origin"] == "human"]
    assert len(human) == len(set(human)) == clue.MODEL_FROM
    grouped = split_pairs(found)
    assert [len(grouped.split(name)) for name in ("train", "val", "test")] == [5442, 605, 1512]
    shares = [
        np.mean([p.meta["origin"] == "model" for p in grouped.split(n)]) for n in ("train", "val", "test")
    ]
    assert max(shares) - min(shares) < 0.02
    assert len(clue.wanted(shared_data / "clue")) == 5348


@pytest.mark.shared
def test_the_real_cite(shared_data):
    found = cite.read_cite(Source(shared_data / "cite"))
    assert len(found.pairs) == 2047
    assert len({pair.seq for pair in found.pairs if pair.seq}) == 259
    assert sum(not pair.seq for pair in found.pairs) == 5
    assert np.mean([list(pair.labels.values()) for pair in found.pairs], 0).round(
        3
    ).tolist() == pytest.approx([0.830, 0.058, 0.211, 0.131, 0.056, 0.492, 0.201])
