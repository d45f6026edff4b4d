"""A study behind its guard, and visitors who fill in its forms."""

import http.cookiejar
import re
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

from starlette.testclient import TestClient

from limner.research.study.app import Desk, study_app
from limner.research.study.records import read_study
from limner.research.study.recruitment import Newcomers, Recruitment
from limner.research.study.votes import VoteBase
from limner.server.security import Guard, Guarded

HERE = "http://127.0.0.1:8420"
ORIGIN = {"origin": HERE}
HTML = {"accept": "text/html"}


@contextmanager
def served(
    folder,
    *,
    limit=None,
    invitation="",
    clock=None,
    hold_s=1200.0,
    recruitment=None,
    notice=None,
    newcomers=None,
):
    files = read_study(folder)
    base = VoteBase(folder, files.study, **({"clock": clock} if clock else {}))
    desk = Desk.of(
        files,
        folder,
        base,
        limit=limit,
        invitation=invitation,
        hold_s=hold_s,
        notice=notice,
        recruitment=recruitment or Recruitment(),
        newcomers=newcomers or Newcomers(),
    )
    app = Guarded(study_app(desk), Guard(port=8420))

    def client():
        return TestClient(app, base_url=HERE, follow_redirects=False, headers=ORIGIN | HTML)

    try:
        yield client, desk, files
    finally:
        base.close()


@contextmanager
def serving(folder, *options, first="", **started):
    """A study served by a process of its own, and its address.

    `first` is a command of the shell in that process; `started` is passed on to `subprocess.Popen`.
    """
    command = [sys.executable, "-m", "limner", "study", "serve", str(folder), *options]
    if first:
        command = ["sh", "-c", f'{first} && exec "$0" "$@"', *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **started)
    try:
        line = process.stdout.readline()
        assert line.startswith("study open at "), process.stderr.read()
        yield process, line.split()[-1].rstrip("/")
    finally:
        process.kill()
        process.communicate(timeout=20)


class Browser:
    """Cookies, redirects and forms, and no more."""

    def __init__(self, address):
        self.address, self.cookies = address, http.cookiejar.CookieJar()
        self.opener = build_opener(HTTPCookieProcessor(self.cookies))

    def ask(self, path, form=None):
        data = None if form is None else urlencode(form).encode()
        request = Request(self.address + path, data, {"Origin": self.address})  # noqa: S310
        with self.opener.open(request, timeout=20) as answer:
            return answer.read().decode()

    def begin(self):
        hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', self.ask("/")))
        return self.ask("/begin", {**hidden, "consent": "yes"})

    @staticmethod
    def unit(page):
        found = re.search(r'name="unit" value="([^"]+)"', page)
        return found and found[1]

    @staticmethod
    def field(page):
        return re.search(r'name="(answer-[\w-]+)"', page)[1]


def fields(page: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def form_of(page: str, *values) -> dict:
    """What a browser sends for these answers, one per item; one alone answers all items."""
    names = list(dict.fromkeys(re.findall(r'name="(answer-[\w-]+)"', page)))
    given = values * len(names) if len(values) == 1 else values
    return {"unit": fields(page)["unit"], **dict(zip(names, given, strict=False))}


def begin(client, token=""):
    page = client.get("/", params={"token": token} if token else {})
    answer = client.post("/begin", data={**fields(page.text), "consent": "yes"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/rate?note=begun")
    return client


def rate(client, value="1"):
    """Answer the page that is open; False when there is none."""
    page = client.get("/rate").text
    if "unit" not in fields(page):
        return False
    answer = client.post("/rate", data=form_of(page, value))
    assert (answer.status_code, answer.headers["location"]) == (303, "/rate")
    return True
