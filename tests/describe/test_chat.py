"""The client against a real server that is good, slow, broken, lying or endless."""

import json
import logging
import time

import pytest
from chat_server import GOOD, chat_body, reply, says

from limner.describe import chat as chat_module
from limner.describe.chat import KEY_VARIABLE, Chat, ChatError, EndpointError
from limner.describe.pictures import read_description
from limner.errors import ConfigError

DESCRIPTION = ("A goat stands on a red roof.", ("goat", "roof", "red sky"))
KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def ask(server, timeout_s=5.0, picture="data:image/jpeg;base64,AAAA"):
    return Chat(server.endpoint, "seer", timeout_s=timeout_s).ask("What?", read_description, picture)


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Sure! Here it is:\n{GOOD}\nAnything else?",
        f'<think>{{"sentence": "A dog", "keywords": []}} no, a {{goat}}</think>\n{GOOD}',
        GOOD.replace("stands on", "stands\\n on"),
        GOOD.replace('"goat", "roof"', '"goat, roof", "goat"'),
    ],
)
def test_a_good_answer_is_read(server, content):
    server.answer = says(content)
    assert ask(server) == DESCRIPTION
    (asked,) = server.requests
    assert server.paths == ["/v1/chat/completions"]
    assert (asked["model"], asked["stream"]) == ("seer", False)
    text, image = asked["messages"][0]["content"]
    assert text == {"type": "text", "text": "What?"}
    assert image["image_url"]["url"] == "data:image/jpeg;base64,AAAA"
    assert "Authorization" not in server.headers[0]


UNUSABLE = {
    "no JSON": ("I see a goat.", "no JSON object"),
    "broken JSON": (GOOD[:-3], "no JSON object"),
    "another shape": ('{"caption": "a goat"}', "no JSON object"),
    "wrapped": (f'{{"result": {GOOD}}}', "no JSON object"),
    "a list of sentences": ('{"sentence": ["a", "b"], "keywords": []}', "sentence is no text"),
    "empty": ('{"sentence": "  ", "keywords": []}', "holds no words"),
    "keywords as text": ('{"sentence": "a goat", "keywords": "goat, roof"}', "'keywords' is no list"),
    "no keywords": ('{"sentence": "a goat"}', "'keywords' is no list"),
    "a number among keywords": ('{"sentence": "a goat", "keywords": [1]}', "a keyword is no text"),
    "too many keywords": (json.dumps({"sentence": "a", "keywords": ["x"] * 31}), "31 keywords"),
    "control characters": ('{"sentence": "a \\u001b[31mgoat", "keywords": []}', "control characters"),
    "a lone surrogate": ('{"sentence": "a \\ud800 goat", "keywords": []}', "control characters"),
    "long": (json.dumps({"sentence": "goat " * 100, "keywords": []}), "499 characters"),
    "very long": (json.dumps({"sentence": "goat " * 10_000, "keywords": []}), "at most 8,000 are read"),
    "deep": ('{"sentence":' * 600, "no JSON object"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_answer_is_asked_for_once_more(server, name):
    content, reason = UNUSABLE[name]
    server.answer = says(content)
    with pytest.raises(ChatError, match=reason):
        ask(server)
    assert len(server.requests) == 2
    assert reason in server.requests[1]["messages"][0]["content"][0]["text"]
    server.answer = says(content, GOOD)
    assert ask(server) == DESCRIPTION


def drip(handler, asked):
    """The head at once, then a byte of the body every 20 ms for as long as anybody listens."""
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    for _ in range(500):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)


def drip_head(handler, asked):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(500):
        handler.wfile.write(f"x-{number}: y\r\n".encode())
        handler.wfile.flush()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [drip, drip_head], ids=["body", "head"])
def test_a_dripping_answer_ends_in_time(server, answer):
    server.answer = answer
    begun = time.monotonic()
    with pytest.raises(ChatError, match=r"no whole answer within 0\.2 s"):
        ask(server, timeout_s=0.2)
    assert time.monotonic() - begun < 2


@pytest.mark.slow
def test_silence_ends_in_time_and_three_times_in_a_row_is_enough(server):
    server.answer = lambda handler, asked: server.ended.wait(5)
    chat = Chat(server.endpoint, "seer", timeout_s=0.1)
    with pytest.raises(ChatError):
        chat.ask("What?", read_description)
    with pytest.raises(EndpointError, match=r"no whole answer within 0\.1 s; 3 times in a row"):
        chat.ask("What?", read_description)
    assert len(server.requests) == 3


def endless(handler, asked):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def told_too_long(handler, asked):
    reply(handler, chat_body(GOOD), content_length="100000")


def told_too_short(handler, asked):
    reply(handler, chat_body(GOOD), content_length="20")


BROKEN = {
    "endless": (endless, "longer than 262,144 bytes"),
    "a length that is too long": (told_too_long, "connection failed"),
    "a length that is too short": (told_too_short, "not JSON"),
    "no JSON": (lambda handler, asked: reply(handler, b"<html>"), "not JSON"),
    "no UTF-8": (lambda handler, asked: reply(handler, b'{"a": "\xff"}'), "not JSON"),
    "deep": (lambda handler, asked: reply(handler, b"[" * 100_000), "not JSON"),
    "another shape": (lambda handler, asked: reply(handler, b'{"choices": []}'), "not one of the chat API"),
    "a list": (lambda handler, asked: reply(handler, b"[1]"), "not one of the chat API"),
    "content in parts": (lambda handler, asked: reply(handler, chat_body([{}])), "not one of the chat API"),
    "500": (
        lambda handler, asked: reply(handler, b'{"error": {"message": "out of\\u0007 memory"}}', 500),
        "HTTP 500: out of memory",
    ),
    "no HTTP": (lambda handler, asked: handler.wfile.write(b"hello\r\n\r\n"), "connection failed"),
    "nothing": (lambda handler, asked: None, "connection failed"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_server_fails_with_a_reason_and_is_asked_once_more(server, name):
    server.answer, reason = BROKEN[name]
    with pytest.raises(ChatError, match=reason):
        ask(server)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 404])
def test_a_server_that_does_not_know_the_model_or_the_key_is_given_up(server, status):
    server.answer = lambda handler, asked: reply(handler, b'{"error": "no model seer"}', status)
    with pytest.raises(EndpointError, match=f"HTTP {status}: no model seer"):
        ask(server)
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(server):
    server.answer = lambda handler, asked: reply(handler, b"", 307, location="/elsewhere")
    with pytest.raises(EndpointError, match="HTTP 307, a redirect, which is not followed"):
        ask(server)
    assert server.paths == ["/v1/chat/completions"]


def test_where_nobody_listens_it_is_given_up_at_once(server):
    chat = Chat("http://127.0.0.1:1/v1", "seer", timeout_s=2)
    with pytest.raises(EndpointError, match="nothing answers"):
        chat.ask("What?", read_description)


def test_a_model_that_never_answers_in_form_is_given_up(server, monkeypatch):
    monkeypatch.setattr(chat_module, "UNUSABLE", 4)
    server.answer = says("I would rather not.")
    chat = Chat(server.endpoint, "seer")
    with pytest.raises(ChatError):
        chat.ask("What?", read_description)
    with pytest.raises(EndpointError, match="4 answers in a row could not be used"):
        chat.ask("What?", read_description)


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("http://192.168.1.7:11434/v1", "is not this machine"),
        ("http://0.0.0.0:11434/v1", "is not this machine"),
        ("http://2130706433/v1", "is not this machine"),
        ("https://example.org/v1", "is not this machine"),
        ("http://localhost.example.org/v1", "is not this machine"),
        ("http://[fe80::1]/v1", "is not this machine"),
        ("ftp://127.0.0.1/v1", "expected http or https"),
        ("127.0.0.1:11434/v1", "expected http or https"),
        ("http://me:word@127.0.0.1/v1", "user name or password"),
        ("http://127.0.0.1/v1?key=1", "contains a query"),
    ],
)
def test_an_address_that_is_not_asked(endpoint, reason):
    with pytest.raises(ConfigError, match=reason):
        Chat(endpoint, "seer")


def test_a_name_of_this_machine_must_resolve_to_it(server, monkeypatch):
    by_name = server.endpoint.replace("127.0.0.1", "localhost")
    assert Chat(by_name, "seer").ask("What?", read_description) == DESCRIPTION
    elsewhere = [(2, 1, 6, "", ("192.0.2.1", 80))]
    monkeypatch.setattr(chat_module.socket, "getaddrinfo", lambda *asked, **more: elsewhere)
    with pytest.raises(EndpointError, match=r"192\.0\.2\.1 is not an address of this machine"):
        Chat(by_name, "seer").ask("What?", read_description)


def test_the_environment_names_no_proxy_for_it(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert ask(server) == DESCRIPTION


def test_a_key_is_sent_and_shows_up_nowhere(server, monkeypatch, caplog):
    monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\n")
    caplog.set_level(logging.DEBUG)
    chat = Chat(server.endpoint, "seer")
    assert chat.ask("What?", read_description) == DESCRIPTION
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    error = json.dumps({"error": f"no such key {KEY}"}).encode()
    server.answer = lambda handler, asked: reply(handler, error, 500)
    with pytest.raises(ChatError, match=r"no such key \[key\]") as refused:
        chat.ask("What?", read_description)
    server.answer = says(GOOD.replace("goat", KEY))
    kept = chat.ask("What?", read_description)
    assert "[key]" in kept[0]
    assert KEY not in f"{refused.value} {chat!r} {kept} {caplog.text} {server.requests}"


def test_a_key_that_is_none_or_would_go_over_the_net_in_clear_is_refused(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with pytest.raises(ConfigError, match="not sent over http") as refused:
        Chat("http://192.0.2.1/v1", "seer", allow_remote=True)
    assert KEY not in str(refused.value)
    Chat("https://192.0.2.1/v1", "seer", allow_remote=True)
    monkeypatch.setenv(KEY_VARIABLE, f"{KEY}\r\nX-Other: 1")
    with pytest.raises(ConfigError, match="no key has") as refused:
        Chat("https://192.0.2.1/v1", "seer", allow_remote=True)
    assert KEY not in str(refused.value)
