"""Only public hosts are asked, at the address that was checked."""

import asyncio

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.transfer import AddressError, GuardedBackend, is_public, plain_url


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "151.101.1.140", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_of_the_open_internet(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",  # noqa: S104 - refused, not bound to
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_of_this_machine_and_its_network(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://a.de", "http://a.de/"),
        (" HTTPS://A.de:8443/x?y=1#part", "https://a.de:8443/x?y=1"),
        ("http://a.de/a b/ü.jpg?q=a b%20c", "http://a.de/a%20b/%C3%BC.jpg?q=a%20b%20c"),
        ("http://bücher.de/", "http://xn--bcher-kva.de/"),
        ("http://[2606:4700::1111]/x", "http://[2606:4700::1111]/x"),
        ("http://a.de/x;y=1,(2)'@!$&*+~", "http://a.de/x;y=1,(2)'@!$&*+~"),
    ],
)
def test_urls_become_ascii(url, plain):
    assert plain_url(url) == plain
    assert plain_url(plain) == plain


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.de/x",
        "//a.de/x",
        "a.jpg",
        "",
        "http://",
        "http://u:p@a.de/",
        "http://u@a.de/",
        "http://a.de:99999/",
        "http://a b.de/",
        "http://a.de%00/",
        "http://\0/",
        "http://a.de/\ud800",
        "http://[::1",
        "http://" + "a" * 70 + ".de/",
        "javascript:alert(1)",
    ],
)
def test_anything_else_is_refused(url):
    with pytest.raises(AddressError):
        plain_url(url)


@given(st.text(max_size=30))
def test_no_text_slips_through(rest):
    for url in (rest, f"http://{rest}", f"http://a.de/{rest}"):
        try:
            plain = plain_url(url)
        except AddressError:
            continue
        assert plain.isascii()
        assert plain.startswith(("http://", "https://"))
        assert not set(plain) & set(" \r\n\t\0")


def connect(answers, monkeypatch, allow_private=False):
    """The addresses connected to, when name servers answer like this one after the other."""
    rest, asked = list(answers), []

    async def record(self, host, port, *_):
        asked.append((host, port))

    async def run():
        async def getaddrinfo(host, port, **_):
            return [(0, 0, 0, "", (address, port)) for address in rest.pop(0)]

        asyncio.get_running_loop().getaddrinfo = getaddrinfo
        await GuardedBackend(allow_private).connect_tcp("a.de", 80, 5.0)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", record)
    asyncio.run(run())
    return asked


def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch):
    # a second look-up would give the private address
    assert connect([["8.8.8.8"], ["127.0.0.1"]], monkeypatch) == [("8.8.8.8", 80)]
    assert connect([["10.0.0.1", "8.8.8.8"]], monkeypatch) == [("8.8.8.8", 80)]
    assert connect([["10.0.0.1"]], monkeypatch, allow_private=True) == [("10.0.0.1", 80)]
    with pytest.raises(AddressError, match=r"a\.de: address 10\.0\.0\.1 is not public"):
        connect([["10.0.0.1", "::1"]], monkeypatch)
