"""Client of the chat API that Ollama, llama.cpp, LM Studio, vLLM and others provide.

The user chooses the server, but it may stall, state wrong lengths, redirect, or send anything. Every request
is therefore limited in time and size, and goes only to the address that the user gave.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpcore

from limner.errors import ConfigError, DataError
from limner.pictures.metadata import plain
from limner.transfer import plain_url

T = TypeVar("T")
KEY_VARIABLE = "LIMNER_ENDPOINT_KEY"
"""Environment variable with an API key for the endpoint; optional."""
TIMEOUT_S = 120.0
MAX_ANSWER_BYTES = 256 * 2**10
MAX_CONTENT_CHARS = 8_000
"""Maximum number of characters of an answer, including its JSON object."""
MAX_TOKENS = 1024
UNANSWERED, UNUSABLE = 3, 40
"""Number of consecutive requests without an answer, and of consecutive unusable answers, after which a run
ends.
"""
_USELESS = frozenset({401, 403, 404, 405})
_REASON_CHARS = 200
_WRITTEN_BYTES = 2**16


class ChatError(DataError):
    """A request failed; the next one may succeed."""


class EndpointError(DataError):
    """The endpoint cannot be used; retrying is pointless."""


class Chat:
    """A model behind an endpoint.

    Attributes:
        endpoint: URL as given by the user, in ASCII.
        model: name of the model at the endpoint.
    """

    def __init__(
        self, endpoint: str, model: str, *, allow_remote: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Check the endpoint without sending a request; a key is read from `KEY_VARIABLE`.

        Args:
            endpoint: base URL of the API, http or https, usually ending in /v1.
            model: name of the model.
            allow_remote: whether the endpoint may be on another machine.
            timeout_s: timeout of a whole request in seconds, > 0.
        Raises:
            ConfigError: the URL is malformed or of another machine, or the model, timeout or key is wrong.
        """
        if not model.strip():
            raise ConfigError("--model: no name; give the model's name as the endpoint knows it")
        if not 0 < timeout_s <= 86_400:
            raise ConfigError(f"--timeout-s {timeout_s:g}: expected more than 0 and at most 86400 seconds")
        try:
            self.endpoint = plain_url(endpoint).rstrip("/")
        except DataError as error:
            raise ConfigError(f"--endpoint: {error}; example: http://127.0.0.1:11434/v1") from None
        parts = urlsplit(self.endpoint)
        host = parts.hostname or ""
        if parts.query:
            raise ConfigError(f"--endpoint: {host}: the URL contains a query; expected none")
        if not allow_remote and not _may_be_here(host):
            raise ConfigError(
                f"--endpoint: {host} is not this machine; expected a loopback address such as 127.0.0.1;"
                " --allow-remote sends your pictures or text there"
            )
        self._key = os.environ.get(KEY_VARIABLE, "").strip()
        if not all("!" <= letter <= "~" for letter in self._key):
            raise ConfigError(f"{KEY_VARIABLE}: contains spaces or characters that no key has; set it again")
        if self._key and parts.scheme != "https" and not _may_be_here(host):
            raise ConfigError(
                f"--endpoint: {host}: a key is not sent over http to another machine; use https, or unset"
                f" {KEY_VARIABLE}"
            )
        self.model, self._remote, self._timeout_s = model.strip(), allow_remote, timeout_s
        self._answered, self._unanswered, self._unusable = False, 0, 0

    def __repr__(self) -> str:
        """Endpoint and model, without the key."""
        return f"Chat({self.endpoint!r}, {self.model!r})"

    def ask(self, prompt: str, read: Callable[[str], T], picture: str | None = None) -> T:
        """Ask the model and parse its answer; if the answer cannot be used, ask once more.

        Args:
            prompt: instruction to the model.
            read: function that parses the answer.
            picture: data URI of a picture sent with the prompt; None for none.
        Raises:
            ChatError: there is no usable answer.
            EndpointError: the endpoint does not answer or refuses, or too many answers in a row cannot be
                used.
        """
        words = prompt
        for last in (False, True):
            try:
                content = self._content(words, picture)
            except ChatError as error:
                self._unanswered += 1
                if self._unanswered >= UNANSWERED:
                    raise EndpointError(f"{self.endpoint}: {error}; {UNANSWERED} times in a row") from None
                if last:
                    raise
                continue
            self._answered, self._unanswered = True, 0
            try:
                answer = read(content)
            except ChatError as error:
                self._unusable += 1
                if self._unusable >= UNUSABLE:
                    raise EndpointError(
                        f"{self.model}: {error}; {UNUSABLE} answers in a row could not be used; try another"
                        " model"
                    ) from None
                if last:
                    raise
                words = (
                    f"{prompt}\n\nYour last answer could not be used ({error}). Answer with the JSON alone."
                )
                continue
            self._unusable = 0
            return answer
        raise AssertionError("the second try returns or raises")

    def _content(self, prompt: str, picture: str | None) -> str:
        """Text of one answer."""
        parts: list[dict[str, Any]] = [{"type": "text", "text": prompt}]
        if picture is not None:
            parts.append({"type": "image_url", "image_url": {"url": picture}})
        # Without a picture, some servers accept only plain text.
        message = {"role": "user", "content": prompt if picture is None else parts}
        asked = {
            "model": self.model,
            "messages": [message],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
            "stream": False,
        }
        status, body = self._post(json.dumps(asked).encode())
        if status in _USELESS:
            hint = "; the address usually ends in /v1" if status == 404 else ""
            raise EndpointError(f"{self.endpoint}: HTTP {status}{self._told(body)}{hint}")
        if 300 <= status < 400:
            raise EndpointError(f"{self.endpoint}: HTTP {status}, a redirect, which is not followed")
        if status != 200:
            raise ChatError(f"HTTP {status}{self._told(body)}")
        answer = _json(body)
        try:
            content = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise ChatError("the answer is not one of the chat API: no choices[0].message.content")
        return self._without_key(content)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of an answer."""
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
        ]
        if self._key:
            headers.append(("Authorization", f"Bearer {self._key}"))
        backend = _Backend(time.monotonic() + self._timeout_s, allow_remote=self._remote)
        address = f"{self.endpoint}/chat/completions"
        content = bytearray()
        try:
            # One connection per request is fast enough: the model takes seconds.
            with (
                httpcore.ConnectionPool(
                    ssl_context=ssl.create_default_context() if address.startswith("https") else None,
                    network_backend=backend,
                    max_connections=1,
                ) as pool,
                pool.stream("POST", address, headers=headers, content=body) as response,
            ):
                for chunk in response.iter_stream():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise ChatError(f"the answer is longer than {MAX_ANSWER_BYTES:,} bytes")
                return response.status, bytes(content)
        except httpcore.TimeoutException as error:
            raise ChatError(f"no whole answer within {self._timeout_s:g} s") from error
        except httpcore.ConnectError as error:
            reason = _plain_reason(error)
            if not self._answered:
                raise EndpointError(
                    f"{self.endpoint}: nothing answers ({reason}); start the server or check the address"
                ) from error
            raise ChatError(f"connection failed: {reason}") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError) as error:
            raise ChatError(f"connection failed: {_plain_reason(error)}") from error

    def _told(self, body: bytes) -> str:
        """Reason in the body of an error response."""
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            return ""
        reason = found.get("error") if isinstance(found, dict) else None
        if isinstance(reason, dict):
            reason = reason.get("message")
        return f": {self._without_key(plain(reason)[:_REASON_CHARS])}" if isinstance(reason, str) else ""

    def _without_key(self, text: str) -> str:
        """Remove the key from a message of the server, which may quote the request."""
        return text.replace(self._key, "[key]") if self._key else text


def find_object(content: str, due: str) -> dict[str, Any]:
    """Find the last JSON object with a given key in an answer, ignoring code fences and other text around it.

    Args:
        content: content of a model.
        due: the required key.
    Raises:
        ChatError: there is no such object.
    """
    if len(content) > MAX_CONTENT_CHARS:
        raise ChatError(f"an answer of {len(content):,} characters; at most {MAX_CONTENT_CHARS:,} are read")
    decoder, found, place = json.JSONDecoder(), None, content.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(content, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            found = value if due in value else found
        place = content.find("{", end)
    if found is None:
        raise ChatError(f"no JSON object with {due!r} in the answer")
    return dict(found)


def one_line(value: object, name: str, most: int) -> str:
    """Check a value of an answer and return it as one line.

    Args:
        value: value in the JSON.
        name: name of the value, for messages.
        most: maximum number of characters.
    Raises:
        ChatError: the value is no text, has control characters or no letter, or is too long.
    """
    if not isinstance(value, str):
        raise ChatError(f"{name} is no text")
    text = " ".join(value.split())
    if plain(text) != text:
        raise ChatError(f"{name} contains control characters")
    if not any(letter.isalpha() for letter in text):
        raise ChatError(f"{name} holds no words")
    if len(text) > most:
        raise ChatError(f"{name} has {len(text):,} characters; at most {most:,} are accepted")
    return text


def _json(body: bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # includes UnicodeDecodeError
        raise ChatError("the answer is not JSON") from None


def _plain_reason(error: Exception) -> str:
    return plain(str(error))[:_REASON_CHARS] or type(error).__name__


def _may_be_here(host: str) -> bool:
    """Whether a host is a loopback address, or a name that must resolve to one; other names are not looked
    up.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class _Backend(httpcore.NetworkBackend):
    """Network backend that connects only to the checked address, and stops at a deadline."""

    def __init__(self, deadline: float, *, allow_remote: bool) -> None:
        self._deadline, self._remote, self._plain = deadline, allow_remote, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve, check, connect.

        Raises:
            ConnectError: the host is unknown, must be this machine but is not, or refuses the connection.
        """
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"{host}: {error.strerror or error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        allowed = [one for one in addresses if self._remote or ipaddress.ip_address(one).is_loopback]
        refused = httpcore.ConnectError(f"{host}: {addresses[0]} is not an address of this machine")
        for address in allowed:
            try:
                stream = self._plain.connect_tcp(
                    address,
                    port,
                    _left(self._deadline, httpcore.ConnectTimeout),
                    local_address,
                    socket_options,
                )
            except httpcore.ConnectError as error:  # a server may listen on only one of 127.0.0.1 and ::1
                refused = error
            else:
                return _Stream(stream, self._deadline)
        raise refused


class _Stream(httpcore.NetworkStream):
    """Network stream that fails after a deadline, even if data still arrives slowly."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._deadline, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITTEN_BYTES):
            piece = buffer[start : start + _WRITTEN_BYTES]
            self._inner.write(piece, _left(self._deadline, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(self._deadline, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401
        return self._inner.get_extra_info(info)


def _left(deadline: float, late: type[httpcore.TimeoutException]) -> float:
    """Seconds left until the deadline.

    Raises:
        TimeoutException: no time is left.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise late("deadline")
    return left
