"""Raters who look at anything but the pictures find the tested system no better than a coin does.

In the material all that can differ does: pictures of one system are large, old PNG files with words in them,
those of the other small, new JPEG files. A rater picks the side that has less of something, page after page;
always wrong is as telling as always right, so the bound is two-sided.
"""

import http.client
import json
import os
import random
import re
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from scipy.stats import binomtest
from study_visitors import begin, fields, served, serving

from limner.research.study.create import QUESTIONS, StudySettings, create_study
from limner.research.study.records import PICTURES, read_study
from limner.research.study.sources import items_material

NAMES = ("true", "ours", "theirs")
UNLIKELY = 1e-6
"""About fifty raters are played: a coin is taken for one who knows once in twenty thousand studies."""
ASKED = {"if-modified-since": "Thu, 01 Jan 2026 00:00:00 GMT", "if-none-match": "*", "range": "bytes=0-9"}
TIMES = ("st_mtime_ns", "st_ctime_ns", "st_atime_ns", "st_birthtime")
TOLD_BY_FILES = (*TIMES, "st_ino", "st_size", "st_blocks", "st_mode", "st_nlink")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """150 pictures of a tested system and of a control, as different as files can be."""
    folder, draws = tmp_path_factory.mktemp("sources"), np.random.default_rng(5)
    told = PngInfo()
    told.add_text("Description", "tested")
    for number in range(150):
        noise = Image.fromarray(draws.integers(0, 255, (36, 48, 3), dtype=np.uint8))
        noise.save(folder / f"t{number}.png", pnginfo=told)
        colour = tuple(int(one) for one in draws.integers(0, 255, 3))
        Image.new("RGB", (20, 16), colour).save(folder / f"c{number}.jpg")
        Image.new("RGB", (24, 16), colour[::-1]).save(folder / f"truth{number}.webp", lossless=True)
        os.utime(folder / f"t{number}.png", (10**9 + number, 10**9 + number))
    return folder


@pytest.fixture(scope="module", params=["pairwise", "tick-all"])
def folder(request, sources, tmp_path_factory):
    """A study made of them by the usual way."""
    pairs = request.param == "pairwise"
    rows = [
        {"id": f"n{n}", "text": f"Sentence {n}.", "tested": f"t{n}.png", "control": f"c{n}.jpg"}
        | ({} if pairs else {"truth": f"truth{n}.webp", "sequence": f"s{n // 10}", "position": n % 10})
        for n in range(150)
    ]
    file = sources / f"{request.param}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    material = items_material(
        request.param, file, ("ours", "theirs") if pairs else ("true", "ours", "theirs")
    )
    settings = StudySettings(
        protocol=request.param, question=QUESTIONS[request.param], size=None, raters=1, checks=0
    )
    made = tmp_path_factory.mktemp(request.param) / "study"
    create_study(made, material, settings)
    return made


def sides(files):
    """Pictures of the tested system and of the control, item by item."""
    pairs = files.study.protocol == "pairwise"
    for item in files.items:
        own = files.key.items[item.id].systems
        names = {letter: one.picture for one in item.candidates for letter in own[one.id]}
        yield item, names["A" if pairs else "B"], names["B" if pairs else "C"]


def order_of(value):
    """A key by which values of one kind can be compared: numbers and dates as such, all else as words."""
    if value is None or not isinstance(value, str):
        return (value is not None, value or 0, "")
    try:
        return (True, float(value), "")
    except ValueError:
        try:
            return (True, parsedate_to_datetime(value).timestamp(), "")
        except ValueError:
            return (True, 0.0, value)


def found_out(observed):
    """Raters who do better or worse than chance: what they go by → how often they name the tested system.

    Args:
        observed: per item: what can be gone by → its value of the tested system and of the control.
    """
    telling = {}
    for clue in sorted({clue for one in observed for clue in one}):
        coin, right, count = random.Random(clue), 0, 0
        for one in observed:
            tested, control = (order_of(value) for value in one.get(clue, (None, None)))
            right += coin.random() < 0.5 if tested == control else tested < control
            count += 1
        if binomtest(right, count).pvalue < UNLIKELY:
            telling[clue] = f"{right} of {count}"
    return telling


def test_the_raters_played_here_would_find_what_tells():
    seen = [{"age": (n, n + 0.5), "side": (n % 2, 1 - n % 2), "same": (1, 1)} for n in range(150)]
    assert found_out(seen) == {"age": "150 of 150"}


def test_no_file_of_a_study_tells_whose_picture_it_is(folder):
    files = read_study(folder)
    pictures = folder / PICTURES
    listed = {name: place for place, name in enumerate(path.name for path in pictures.iterdir())}
    lines = (folder / "items.jsonl").read_text()
    observed = []
    for item, *names in sides(files):
        stats = [(pictures / name).stat() for name in names]
        clues = {told: [getattr(one, told, None) for one in stats] for told in TOLD_BY_FILES}
        clues |= {
            "name": names,
            "kind of name": [name.partition(".")[2] for name in names],
            "place in the folder": [listed[name] for name in names],
            "place in the records": [lines.index(name) for name in names],
            "first bytes": [(pictures / name).read_bytes()[:20].hex() for name in names],
            "id": [next(one.id for one in item.candidates if one.picture == name) for name in names],
        }
        observed.append(clues)
    assert found_out(observed) == {}


@pytest.mark.slow
def test_no_header_page_or_order_tells_whose_picture_it_is(folder):
    files = read_study(folder)
    whose = {item.id: (item, names) for item, *names in sides(files)}
    observed = []
    with serving(folder, "--port", "0") as (_, address):
        host = address.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=20)
        cookie = {}

        def ask(path, form=None):
            headers = cookie | ({} if form is None else {"Origin": address})
            body = None if form is None else urlencode(form, doseq=True)
            connection.request("GET" if form is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return dict(answer.getheaders()), answer.read().decode("latin-1")

        hidden = fields(ask("/")[1]) | {"rater": "abcdefghijklmnopqrstuvwx"}  # so that orders are drawn alike
        cookie["Cookie"] = ask("/begin", {**hidden, "consent": "yes"})[0]["set-cookie"].partition(";")[0]
        while "unit" in fields(page := ask("/rate")[1]):
            shown = re.findall(r'<img src="/pictures/([^"]+)"', page)
            got = {name: ask(f"/pictures/{name}")[0] for name in shown}
            for item, names in whose.values():
                if (item.sequence or item.id) != fields(page)["unit"]:
                    continue
                heads = [got[name] for name in names]
                clues = {f"header {one}": [head.get(one) for head in heads] for one in heads[0] | heads[1]}
                clues["place on the page"] = [shown.index(name) for name in names]
                observed.append(clues)
            answers = dict.fromkeys(re.findall(r'name="(answer-[\w-]+)"', page), "1")
            ask("/rate", {"unit": fields(page)["unit"], **answers})
        connection.close()
    assert len(observed) == 150
    assert found_out(observed) == {}


@pytest.mark.slow
def test_both_sides_are_sent_by_the_same_steps(folder, monkeypatch):
    """What the server does for a picture is the same whatever it shows, first or again, so its time is."""
    reads = []
    plain = Path.read_bytes
    with served(folder) as (client, _, files):
        monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or plain(path))
        rater, other = begin(client()), begin(client())
        work = set()
        for _, *names in list(sides(files))[:20]:
            for name in (*names, *names[::-1]):
                for visitor in (rater, other):
                    reads.clear()
                    sent = visitor.get(f"/pictures/{name}", headers=ASKED)
                    work.add((sent.status_code, len(sent.content), *sorted(sent.headers.items())))
                    assert reads == [name]
        assert len(work) == 1
