"""`limner describe` as a person runs it: with the real encoders, a real library and a real server."""

import json

import pytest
from chat_server import reply, says
from fakes import noise_picture

from limner.cli.main import run
from limner.describe.chat import KEY_VARIABLE

KEY = "sk-secret-0123456789"
ZEBRA = '{"sentence": "A zebra drinks at a waterhole.", "keywords": ["zebra", "water"]}'
BOAT = '{"sentence": "A fishing boat lies in a harbour.", "keywords": ["boat", "harbour"]}'


@pytest.fixture
def library(tmp_path, capsys):
    for number in range(2):
        noise_picture(number).save(tmp_path / f"IMG_{number:04}.png")
    assert run(["index", str(tmp_path), "--library", str(tmp_path / "lib"), "--encoder", "colour"]) == 0
    capsys.readouterr()
    return str(tmp_path / "lib")


@pytest.mark.slow
def test_a_described_picture_is_found_by_search_until_that_is_removed(library, server, capsys, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    server.answer = says(ZEBRA, BOAT)
    words = ["describe", "--library", library, "--endpoint", server.endpoint, "--model", "seer:7b"]
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("described by seer:7b: 2 pictures (0 already there, 0 failed);")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert run([*words, "--json"]) == 0
    again, more = capsys.readouterr()
    assert (json.loads(again)["described"], json.loads(again)["already"]) == (0, 2)
    assert KEY not in out + err + again + more
    for query, sentence in (("an animal at the water", "A zebra"), ("ships in a port", "A fishing boat")):
        assert run(["search", query, "--library", library, "--json", "-k", "1"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["caption"].startswith(sentence)
    assert run(["describe", "--library", library, "--remove"]) == 0
    assert capsys.readouterr().out == "descriptions removed: 2 pictures\n"
    assert run(["search", "a boat", "--library", library]) == 1


def test_refusals_are_one_line_and_a_status(library, server, capsys, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    words = ["describe", "--library", library, "--model", "seer"]

    def refused(*more):
        status = run([*words, *more])
        out, err = capsys.readouterr()
        assert KEY not in out + err
        assert len(err.splitlines()) == 1
        return status, out, err

    status, out, err = refused()
    assert (status, out) == (2, "")
    assert "name --endpoint and --model" in err
    assert refused("--endpoint", "http://192.0.2.1/v1")[:2] == (2, "")
    assert refused("--endpoint", server.endpoint, "--remove")[:2] == (2, "")
    assert refused("--endpoint", server.endpoint, "--limit", "0")[:2] == (2, "")
    status, out, err = refused("--endpoint", "http://127.0.0.1:1/v1")
    assert (status, out) == (1, "")
    assert "nothing answers" in err
    assert server.requests == []
    server.answer = says("No.")
    assert run([*words, "--endpoint", server.endpoint]) == 1
    out, err = capsys.readouterr()
    assert out.count("failed: ") == 2
    assert "no picture could be described (2 failures)" in err.splitlines()[-1]
    server.answer = lambda handler, asked: reply(handler, b'{"error": "model not found"}', 404)
    status, out, err = refused("--endpoint", server.endpoint)
    assert (status, out) == (1, "")
    assert "HTTP 404: model not found" in err
