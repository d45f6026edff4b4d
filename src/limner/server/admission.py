"""Authentication of a local server: the token, the browser's cookie, and responses without either.

Every user of a machine can reach its loopback ports, so a server that acts for one of them needs a secret.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from limner.errors import ConfigError
from limner.server.problems import PAGE_POLICY, ProblemDetails, answer, page, title_of

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
SHORTEST = 16
SIGN_IN = "/sign-in"
"""Path to which an open page sends a new token in a header; in a URL it would stay in the history."""
_BODY = """<p>The terminal in which the server was started shows its URL with the token:</p>
<pre>http://{host}/?token=…</pre>
<p>Open the complete URL. This browser then stays signed in until you close it or the token changes.</p>
<p>Programs send the token as <code>Authorization: Bearer …</code></p>"""
# A browser sends no strict cookie if a page of another site or a file led here, even after a redirect; it
# does if this page itself redirects.
_AGAIN = '<meta http-equiv="refresh" content="0">'


def token_of(given: str | None, *, wanted: bool, alone: bool) -> str | None:
    """Choose the token of a server; None for a server without one.

    Args:
        given: token chosen by the user; by default, 32 random bytes.
        wanted: False if the user wants a server without a token.
        alone: whether only this machine can reach it.
    Raises:
        ConfigError: other machines can connect without a token, a token is both given and refused, or it is
            too short or not visible ASCII.
    """
    if not wanted:
        if given is not None:
            raise ConfigError(
                "--no-token: a token is set too, by --token or LIMNER_TOKEN; use one or the other"
            )
        if not alone:
            raise ConfigError("--no-token: anyone on the network could use the server; leave it out")
        return None
    if given is None:
        return secrets.token_urlsafe(32)
    if len(given) < SHORTEST or not all("!" <= letter <= "~" for letter in given):
        raise ConfigError(
            f"--token or LIMNER_TOKEN: found {len(given)} characters, expected at least {SHORTEST}, all of"
            " them visible ASCII; leave it out to get one of 32 random bytes"
        )
    return given


class Admission:
    """Authentication by a token.

    The browser's cookie contains a key derived from the token by a slow hash, so that a short token cannot be
    guessed from it: browsers send cookies to every port of a host. A token set by the user remains valid
    after a restart, and so does its cookie.
    """

    def __init__(self, token: str, cookie: str) -> None:
        """Set up the authentication.

        Args:
            token: the token.
            cookie: name of the browser's cookie.
        """
        self._token, self._cookie = token, cookie
        salt = f"limner cookie {cookie}".encode()
        key = hashlib.scrypt(token.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
        self._kept = base64.urlsafe_b64encode(key).decode().rstrip("=")

    def admit(self, request: Request) -> Response | None:
        """Check a request: None if it is allowed, or a redirect to the URL without the token, or an error."""
        query = request.query_params
        right = request.method in SAFE and _same(query.get("token", ""), self._token)
        known = _same(request.cookies.get(self._cookie, ""), self._kept)
        if right or (known and request.method in SAFE and "token" in query):
            rest = urlencode([(name, value) for name, value in query.multi_items() if name != "token"])
            # one slash: a path that begins with two would lead to another server
            path = "/" + request.scope["path"].lstrip("/")
            response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            return self._known_again(response) if right else response
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        named = scheme.lower() == "bearer" and _same(bearer.strip(), self._token)
        if named and request.scope["path"] == SIGN_IN:
            return self._known_again(Response(status_code=204))
        return None if known or named else _refusal(request)

    def _known_again(self, response: Response) -> Response:
        """Set the browser's cookie on a response."""
        response.set_cookie(self._cookie, self._kept, httponly=True, samesite="strict", path="/")
        return response


def _refusal(request: Request) -> Response:
    """Error response: a page for browsers, problem+json for programs; neither quotes the request."""
    headers = {"www-authenticate": "Bearer"}
    title = title_of(401)
    if "text/html" in request.headers.get("accept", ""):
        body = _BODY.format(host=escape(request.headers["host"]))
        elsewhere = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
        text = page(title, body, _AGAIN if elsewhere else "")
        return HTMLResponse(text, 401, {**headers, "content-security-policy": PAGE_POLICY})
    detail = (
        "the token is missing or wrong; open the URL that the server printed in its terminal, or send"
        " the token as Authorization: Bearer"
    )
    return answer(
        request, ProblemDetails(type="urn:limner:token", title=title, status=401, detail=detail), headers
    )


def _same(found: str, due: str) -> bool:
    """Compare in constant time, which reveals only the length of the secret."""
    return secrets.compare_digest(found.encode("utf-8", "surrogateescape"), due.encode())


@contextmanager
def leading_to(address: str, near: Path) -> Iterator[str]:
    """Create a file that redirects a browser to a URL, as a file:// URL; only its owner can read it.

    All users of a machine can see the command lines of its browsers, so these must not contain the URL with
    the token. The file is deleted at the end.

    Args:
        address: URL with the token.
        near: folder for the file, created if missing; sandboxed browsers cannot read the system's folder for
            temporary files, which is used only if this one is not writable.
    """
    with _private_folder(near) as folder:
        file = Path(folder) / "open.html"
        file.touch(mode=0o600)
        target = escape(address)
        head = f'<meta http-equiv="refresh" content="0;url={target}">'
        file.write_text(page("limner", f'<p><a href="{target}">Open the studio</a></p>', head), "utf-8")
        yield file.resolve().as_uri()


def _private_folder(near: Path) -> tempfile.TemporaryDirectory[str]:
    with suppress(OSError):
        near.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="open-", dir=near)
    return tempfile.TemporaryDirectory(prefix="limner-")
