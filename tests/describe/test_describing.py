"""Pictures of a library are described, found by that, described once, and lose it again when asked."""

import base64
import io
import json
import sys

import numpy as np
import pytest
from chat_server import GOOD, reply, says
from fakes import FakeTexts, content, noise_picture
from PIL import Image

from limner.describe import pictures as describing
from limner.describe.chat import Chat
from limner.describe.pictures import DescribeReport, describe_pictures
from limner.errors import CheckpointError, DataError
from limner.records import Problem
from limner.store import Described, ModelWords
from limner.store.database import Database
from limner.store.index import encode_captions, index, sentences_of

pytestmark = pytest.mark.slow

SENTENCE, KEYWORDS = "A goat stands on a red roof.", "goat, roof, red sky"
BY_MODEL = [(SENTENCE, "model"), (KEYWORDS, "model")]
GOAT = ModelWords(model="seer", captions=("A goat.",))


def describe(library, server, model="seer", **options):
    return describe_pictures(library, Chat(server.endpoint, model, timeout_s=5), **options)


def write(library, found):
    library.write_descriptions(found)
    encode_captions(library)


def write_words(library, picture, words):
    library.write_words(picture, words)
    encode_captions(library)
    return library.words_of(picture)


def remove_descriptions(library, model=None):
    count = library.remove_descriptions(model)
    encode_captions(library)
    return count


def captions(library, number):
    return [(one.text, one.source) for one in library.find(f"IMG_{number:04}.png").captions]


def vector(library, number):
    picture = library.find(f"IMG_{number:04}.png").id
    space = library.index(["captions"]).gallery.of([picture]).space("captions")
    return space.matrix[0] if space.present[0] else None


def unit(*texts):
    total = FakeTexts().encode_text(list(texts)).sum(axis=0)
    return total / np.linalg.norm(total)


def test_pictures_without_words_are_described_and_their_captions_encoded(library, server, pictures):
    before = {one: one.read_bytes() for one in pictures.iterdir()}
    report = describe(library, server)
    assert (report.described, report.already, report.worded, report.left) == (3, 0, 1, 0)
    assert (report.failed, report.stopped) == ((), "")
    assert captions(library, 0) == BY_MODEL
    assert captions(library, 3) == [("a kite over the sea", "sidecar")]
    assert np.allclose(vector(library, 0), unit(SENTENCE, KEYWORDS), atol=1e-3)
    assert library.find("IMG_0000.png").alt == SENTENCE
    assert {one: one.read_bytes() for one in pictures.iterdir()} == before
    again = FakeTexts()
    assert index([pictures], library, text_encoder=again).captions_encoded == 0
    assert again.encoded == []


def test_all_are_described_beside_what_their_files_say_but_not_what_the_user_wrote(library, server):
    write_words(library, library.find("IMG_0000.png").id, Described(captions=("mine",)))
    write_words(library, library.find("IMG_0001.png").id, Described())
    assert describe(library, server, every=True).described == 2
    assert captions(library, 0) == [("mine", "library")]
    assert captions(library, 1) == []
    assert captions(library, 3) == [("a kite over the sea", "sidecar"), *BY_MODEL]
    told = library.words_of(library.find("IMG_0003.png").id)
    assert told.stated == Described(captions=("a kite over the sea",))
    assert told.described == ModelWords(
        model="seer", captions=(SENTENCE,), keywords=("goat", "roof", "red sky")
    )
    assert told.now == Described(
        captions=("a kite over the sea", SENTENCE), keywords=("goat", "roof", "red sky")
    )


def test_a_small_copy_without_metadata_is_sent(tmp_path, server):
    folder = tmp_path / "photos"
    folder.mkdir()
    about = Image.Exif()
    about[0x010F] = "Secret Camera"
    noise_picture(1, (2000, 1000)).save(folder / "DSC_1.jpg", exif=about)
    index([folder], tmp_path / "lib", text_encoder=FakeTexts())
    assert describe(Database(tmp_path / "lib"), server).described == 1
    url = server.requests[0]["messages"][0]["content"][1]["image_url"]["url"]
    kind, _, data = url.partition(",")
    assert kind == "data:image/jpeg;base64"
    sent = base64.b64decode(data)
    image = Image.open(io.BytesIO(sent))
    assert (image.format, image.size) == ("JPEG", (768, 384))
    assert not image.getexif()
    assert b"Secret" not in sent


def test_a_described_picture_is_asked_about_once_by_the_same_model(library, server):
    assert describe(library, server, limit=1).left == 2
    report = describe(library, server)
    assert (report.described, report.already) == (2, 1)
    assert len(server.requests) == 3
    assert describe(library, server).described == 0
    server.answer = says('{"sentence": "A hen.", "keywords": []}')
    report = describe(library, server, model="other")
    assert (report.described, report.already) == (3, 0)
    assert captions(library, 2) == [("A hen.", "model")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_was_described_before_ctrl_c_or_a_kill_stays(library, server, monkeypatch, error):
    monkeypatch.setattr(describing, "WRITE_PICTURES", 1)
    real, count = describing.described, iter(range(9))

    def interrupted(picture, chat):
        if next(count) == 2:
            raise error
        return real(picture, chat)

    monkeypatch.setattr(describing, "described", interrupted)
    if error is KeyboardInterrupt:
        report = describe(library, server)
        assert (report.described, report.left, report.interrupted) == (2, 1, True)
    else:
        with pytest.raises(SystemExit):
            describe(library, server)
    report = describe(library, server)
    assert (report.described, report.already) == (1, 2)


def test_one_failure_is_a_line_and_the_next_picture_goes_on(library, server, pictures):
    asked = [0]

    def answer(handler, body):
        asked[0] += 1
        if asked[0] in (2, 3):
            reply(handler, b"{}", 500)
        else:
            says(GOOD)(handler, body)

    server.answer = answer
    report = describe(library, server)
    assert report.described == 2
    (failed,) = report.failed
    assert failed.path.startswith(str(pictures))
    assert failed.reason == "HTTP 500"
    assert describe(library, server).described == 1


def test_a_picture_that_is_gone_or_another_by_now_is_not_described(library, server, pictures):
    (pictures / "IMG_0000.png").unlink()
    noise_picture(77).save(pictures / "IMG_0001.png")
    report = describe(library, server)
    assert report.described == 1
    reasons = {one.path[-8:]: one.reason for one in report.failed}
    assert "does not exist" in reasons["0000.png"]
    assert "has changed since it was indexed" in reasons["0001.png"]


def test_an_endpoint_that_goes_away_ends_the_run_and_keeps_what_came(library, server):
    asked = [0]

    def answer(handler, body):
        asked[0] += 1
        if asked[0] == 1:
            says(GOOD)(handler, body)
        else:
            reply(handler, b'{"error": "crashed"}', 503)

    server.answer = answer
    report = describe(library, server)
    assert (report.described, len(report.failed), report.left) == (1, 1, 1)
    assert "HTTP 503: crashed; 3 times in a row" in report.stopped


def test_it_outlives_indexing_other_words_and_another_path(library, server, pictures):
    describe(library, server)
    (pictures / "IMG_0000.txt").write_text("a goat at home")
    (pictures / "IMG_0001.png").rename(pictures / "IMG_0009.png")
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, 0) == [("a goat at home", "sidecar"), *BY_MODEL]
    assert captions(library, 9) == BY_MODEL
    assert np.allclose(vector(library, 0), unit("a goat at home", SENTENCE, KEYWORDS), atol=1e-3)


def test_removing_leaves_a_library_that_was_never_described(library, server, pictures):
    before = content(library)
    describe(library, server, every=True)
    assert remove_descriptions(library, "other") == 0
    assert remove_descriptions(library, "seer") == 4
    assert content(library) == before
    assert remove_descriptions(library) == 0
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, 0) == []


def test_editing_makes_them_the_users_and_taking_that_back_the_models(library, server):
    describe(library, server)
    picture = library.find("IMG_0000.png").id
    told = write_words(library, picture, Described(captions=("A goat on our roof.",)))
    assert (told.edited, told.described.model) == (True, "seer")
    assert captions(library, 0) == [("A goat on our roof.", "library")]
    write(library, {picture: GOAT})
    assert captions(library, 0) == [("A goat on our roof.", "library")]
    assert remove_descriptions(library) == 3
    assert captions(library, 0) == [("A goat on our roof.", "library")]
    assert np.allclose(vector(library, 0), unit("A goat on our roof."), atol=1e-3)
    write(library, {picture: GOAT})
    told = write_words(library, picture, None)
    assert (told.edited, told.now) == (False, Described(captions=("A goat.",)))
    assert np.allclose(vector(library, 0), unit("A goat."), atol=1e-3)


@pytest.mark.parametrize("removed", [False, True])
def test_a_kill_between_two_writes_is_mended_by_the_next_run(library, pictures, monkeypatch, removed):
    picture = library.find("IMG_0000.png").id
    if removed:
        write(library, {picture: GOAT})
    monkeypatch.setattr(Database, "_refresh", lambda *rest: sys.exit())
    with pytest.raises(SystemExit):
        _ = remove_descriptions(library) if removed else write(library, {picture: GOAT})
    monkeypatch.undo()
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, 0) == ([] if removed else [("A goat.", "model")])
    assert removed or np.allclose(vector(library, 0), unit("A goat."), atol=1e-3)


def test_what_cannot_be_described(tmp_path, library, server, pictures, monkeypatch):
    with monkeypatch.context() as patch:
        other = sentences_of(FakeTexts("bag-2"), None)
        patch.setattr("limner.store.index.caption_encoders", lambda spaces: other)
        with pytest.raises(CheckpointError, match="another version"):
            describe(library, server)
    index([pictures], tmp_path / "silent")
    with pytest.raises(DataError, match="indexed without captions"):
        describe(Database(tmp_path / "silent"), server)
    assert server.requests == []
    lines = describe(library, server).lines()
    assert lines[0].startswith("described by seer: 3 pictures (0 already there, 0 failed);")
    assert json.loads(describe(library, server).model_dump_json())["already"] == 3


def test_failures_that_are_not_listed_are_counted():
    failed = tuple(Problem(path=str(number), reason="HTTP 500") for number in range(3))
    told = DescribeReport(model="seer", failed=failed)
    assert [line.split(":", 1)[1] for line in told.lines(1)[1:]] == [" 0: HTTP 500", " and 2 more"]
    assert told.lines(3)[1:] == [f"failed: {number}: HTTP 500" for number in range(3)]
