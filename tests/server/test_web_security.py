"""Who may ask a local server, from where, with which token, and how much may be sent."""

import asyncio
import json
import re

import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from limner.server import problems
from limner.server.security import HEADERS, Guard, Guarded, hosts_of, is_loopback

HERE = "http://127.0.0.1:8420"
TOKEN = "a-token-of-a-test"  # noqa: S105


def app():
    made = FastAPI()
    problems.install(made)

    @made.get("/")
    @made.get("/deep/page")
    def page(request: Request):
        return {"query": request.url.query}

    @made.post("/")
    async def write(request: Request):
        return {"size": len(await request.body())}

    return made


def client(base=HERE, **rules):
    guard = Guard(**{"port": 8420, "cookie": "c-8420", **rules})
    return TestClient(Guarded(app(), guard), base_url=base, follow_redirects=False)


def refused(response, status, kind):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["type"] == f"urn:limner:{kind}"
    assert told["status"] == status
    assert told["detail"]
    for name, value in HEADERS.items():
        assert response.headers[name] == value


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:8420", "LOCALHOST:8420", "[::1]:8420"])
def test_our_own_names_are_served(host):
    answer = client().get("/", headers={"host": host})
    assert answer.status_code == 200
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8420",
        "127.0.0.1.evil.example:8420",
        "localhost.evil.example:8420",
        "127.0.0.1",
        "127.0.0.1:8421",
        "127.0.0.1:",
        "127.0.0.1:08x",
        "192.168.1.7:8420",
        "[::2]:8420",
        "::1",
        "",
        "user@127.0.0.1:8420",
        "127.0.0.1:8420,evil.example",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_foreign_names_are_refused_also_for_reading(host, method):
    refused(client().request(method, "/", headers={"host": host}), 421, "host")


def asked(app, headers, method="GET", parts=(b"",), path="/"):
    """One request as raw ASGI, with headers that no client would send."""
    sent = []
    messages = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(parts)}
        for number, part in enumerate(parts)
    ]

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "server": ("127.0.0.1", 8420),
        "client": ("127.0.0.1", 5),
        "root_path": "",
        "http_version": "1.1",
    }
    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body), messages


def test_two_hosts_or_none_are_refused():
    guarded = Guarded(app(), Guard(port=8420))
    one = (b"host", b"127.0.0.1:8420")
    assert asked(guarded, [one])[0] == 200
    assert asked(guarded, [one, (b"host", b"evil.example")])[0] == 421
    assert asked(guarded, [])[0] == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"origin": "http://localhost:8420"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_others_may_not_write(headers):
    refused(client().post("/", headers=headers), 403, "origin")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": HERE},
        {"origin": HERE, "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
def test_our_own_pages_and_programs_may_write(headers):
    assert client().post("/", headers=headers, content=b"abc").json() == {"size": 3}


@pytest.mark.slow
def test_without_the_token_nothing_is_served():
    for method in ("GET", "POST"):
        refused(client(token=TOKEN).request(method, "/deep/page"), 401, "token")
    refused(client(token=TOKEN).get("/?token=wrong"), 401, "token")
    refused(client(token=TOKEN).get("/", headers={"cookie": "c-8420=wrong"}), 401, "token")
    refused(client(token=TOKEN).get("/", headers={"authorization": "Bearer wrong"}), 401, "token")
    refused(client(token=TOKEN).get("/", headers={"authorization": "Bearer "}), 401, "token")
    refused(client(token=TOKEN).get("/", headers={"cookie": f"other={TOKEN}"}), 401, "token")


def test_the_token_goes_from_the_address_into_a_cookie_that_scripts_cannot_read():
    asking = client(token=TOKEN)
    first = asking.get(f"/deep/page?a=1&token={TOKEN}&b=%26")
    assert first.status_code == 303
    assert first.headers["location"] == "/deep/page?a=1&b=%26"
    cookie = first.headers["set-cookie"]
    assert re.match(r"c-8420=[\w-]{43,};", cookie)
    assert TOKEN not in cookie  # browsers send cookies to every port of a host
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "max-age" not in cookie.lower()
    assert "expires" not in cookie.lower()
    assert first.headers["referrer-policy"] == "no-referrer"
    assert first.headers["cache-control"] == "no-store"
    assert asking.get("/deep/page").status_code == 200
    assert asking.post("/", headers={"origin": HERE}).status_code == 200
    refused(asking.post("/", headers={"origin": "http://evil.example"}), 403, "origin")


def test_a_page_that_is_open_signs_in_by_a_header():
    asking = client(token=TOKEN)
    refused(asking.post("/sign-in", headers={"authorization": "Bearer wrong"}), 401, "token")
    assert asking.post("/sign-in", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 204
    assert asking.get("/").status_code == 200


def test_a_cookie_counts_as_long_as_its_token():
    asking = client(token=TOKEN)
    kept = asking.get(f"/?token={TOKEN}").cookies["c-8420"]
    cookie = {"cookie": f"c-8420={kept}"}
    assert client(token=TOKEN).get("/", headers=cookie).status_code == 200  # as after a restart
    refused(client(token=f"{TOKEN}-other").get("/", headers=cookie), 401, "token")
    refused(client(token=TOKEN, cookie="c-8421").get("/", headers={"cookie": f"c-8421={kept}"}), 401, "token")
    refused(client(token=TOKEN).get("/", headers={"authorization": f"Bearer {kept}"}), 401, "token")


@pytest.mark.parametrize("query", [f"token={TOKEN}", "token=an-old-one", f"token={TOKEN}&token=x"])
def test_no_token_stays_in_the_address_of_whoever_is_known(query):
    asking = client(token=TOKEN)
    asking.get(f"/?token={TOKEN}")
    answer = asking.get(f"/deep/page?a=1&{query}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/deep/page?a=1")


BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_without_the_token_is_told_where_it_stands():
    answer = client(token=TOKEN).get("/deep/page?token=wrong-one&a=<b>", headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "terminal" in answer.text
    assert "http://127.0.0.1:8420/?token=…" in answer.text
    assert "script" not in answer.headers["content-security-policy"]
    assert 'http-equiv="refresh"' not in answer.text
    for secret in (TOKEN, "wrong-one", "<b>"):
        assert secret not in answer.text + str(answer.headers)
    whole = client(token=TOKEN).get("/deep/page?token=wrong-one").text
    assert "wrong-one" not in whole
    assert TOKEN not in whole


def test_a_page_reached_from_elsewhere_asks_again_once_since_browsers_then_bring_the_cookie():
    asking = client(token=TOKEN)
    elsewhere = asking.get("/", headers=BROWSER | {"sec-fetch-site": "cross-site"})
    assert elsewhere.status_code == 401
    assert '<meta http-equiv="refresh" content="0">' in elsewhere.text
    again = asking.get("/", headers=BROWSER | {"sec-fetch-site": "same-origin"})
    assert 'http-equiv="refresh"' not in again.text
    written = asking.post("/", headers=BROWSER | {"sec-fetch-site": "cross-site"})
    assert written.status_code == 403


def test_the_name_of_the_scheme_is_read_as_http_says():
    asked = client(token=TOKEN).get
    assert asked("/", headers={"authorization": f"bearer  {TOKEN}"}).status_code == 200
    refused(asked("/", headers={"authorization": TOKEN}), 401, "token")
    refused(asked("/", headers={"authorization": f"Basic {TOKEN}"}), 401, "token")
    refused(asked("/", headers={"authorization": "Bearer tökén".encode()}), 401, "token")


def test_the_redirect_leads_to_no_other_server():
    answer = client(token=TOKEN).get(f"{HERE}//evil.example/x?token={TOKEN}")
    assert answer.headers["location"] == "/evil.example/x"


def test_a_token_in_the_address_does_not_let_write():
    refused(client(token=TOKEN).post(f"/?token={TOKEN}"), 401, "token")


def test_programs_bring_the_token_in_a_header():
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert client(token=TOKEN).post("/", headers=headers).status_code == 200


def test_beyond_this_machine_addresses_will_do_but_foreign_names_will_not():
    rules = {"addresses": True, "token": TOKEN}
    for host in ("192.168.1.7:8420", "[fe80::1]:8420"):
        answer = client(**rules).get(f"/?token={TOKEN}", headers={"host": host})
        assert answer.status_code == 303
    refused(client(**rules).get("/", headers={"host": "evil.example:8420"}), 421, "host")


def test_bodies_are_bounded_by_what_is_stated_and_by_what_comes():
    small = Guard(port=8420, body_bytes=10)
    host = (b"host", b"127.0.0.1:8420")
    guarded = Guarded(app(), small)
    assert asked(guarded, [host], "POST", (b"12345", b"67890"))[1] == {"size": 10}
    status, told, _ = asked(guarded, [host, (b"content-length", b"11")], "POST", (b"x" * 11,))
    assert (status, told["type"]) == (413, "urn:limner:too-large")
    for wrong in (b"-1", b"ten", b"1e9"):
        assert asked(guarded, [host, (b"content-length", wrong)], "POST")[0] == 413
    # In pieces and without a stated length: refused as soon as it is too much, the rest is not read.
    status, told, unread = asked(guarded, [host], "POST", tuple(b"1234" for _ in range(100)))
    assert (status, told["type"]) == (413, "urn:limner:too-large")
    assert len(unread) == 97


def test_half_a_body_is_never_taken_for_a_whole_one():
    """A form of which the end is missing may say something else."""
    came = iter([{"type": "http.request", "body": b"half", "more_body": True}, {"type": "http.disconnect"}])
    reached, sent = [], []

    async def behind(scope, receive, send):
        reached.append(await receive())

    async def receive():
        return next(came)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    scope["headers"] = [(b"host", b"127.0.0.1:8420"), (b"content-length", b"8")]
    asyncio.run(Guarded(behind, Guard(port=8420))(scope, receive, send))
    assert (reached, sent) == ([], [])


def test_what_is_not_http_gets_no_answer():
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    asyncio.run(Guarded(app(), Guard())({"type": "websocket", "headers": []}, receive, send))
    assert sent == []


@pytest.mark.parametrize(
    ("host", "due"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.0.2", "example.org", "")),  # noqa: S104
    ],
)
def test_what_only_this_machine_reaches(host, due):
    assert is_loopback(host) is due


def test_names():
    assert hosts_of("Books.Local", ["[fe80::1]", ""]) == {
        "127.0.0.1",
        "localhost",
        "::1",
        "books.local",
        "fe80::1",
    }
