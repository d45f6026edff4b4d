"""How a browser gets in: by the printed address, by a file, and not at all."""

import pytest

from limner.server.admission import leading_to

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


@pytest.fixture
def stranger(browser):
    """A page of a browser that does not know the token."""
    context = browser.new_context()
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def opened(page, studio):
    """The start page is there, and nothing in the browser's memory of addresses holds a token."""
    page.wait_for_selector("#text")
    assert page.url == f"{studio}/"
    held = page.evaluate(
        "[location.href, document.referrer, document.cookie, ...performance.getEntries().map(e => e.name)]"
    )
    assert not any("token" in one or "limner-studio" in one for one in held)
    (cookie,) = page.context.cookies(studio)
    assert cookie["name"] == f"limner-studio-{studio.rpartition(':')[2]}"
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)


def test_the_printed_address_lets_in_and_leaves_no_token_behind(stranger, studio, printed):
    stranger.goto(printed(studio))
    opened(stranger, studio)
    stranger.goto(f"{studio}/library")
    stranger.go_back()
    opened(stranger, studio)
    assert stranger.evaluate("history.length") == 3  # with the empty page that it began with


def test_the_file_that_is_opened_in_place_of_the_address_lets_in(stranger, studio, printed, tmp_path):
    with leading_to(printed(studio), tmp_path) as file:
        stranger.goto(file)
        stranger.wait_for_url(f"{studio}/")
        opened(stranger, studio)


def test_a_link_from_elsewhere_lets_in_who_is_known(stranger, studio, printed, tmp_path):
    stranger.goto(printed(studio))
    opened(stranger, studio)
    page = tmp_path / "links.html"
    page.write_text(f'<a href="{studio}/">there</a>')
    stranger.goto(page.as_uri())
    stranger.click("a")
    opened(stranger, studio)


def test_whoever_lacks_the_token_reads_where_it_stands(stranger, studio):
    for path in ("/", "/library", "/api/library/pictures"):
        answer = stranger.goto(f"{studio}{path}?token=wrong")
        assert answer.status == 401
        expect(stranger.locator("h1")).to_have_text("Sign-in link needed")
        expect(stranger.locator("main")).to_contain_text("terminal")
        expect(stranger.locator("pre")).to_contain_text(f"{studio}/?token=…")
        assert "wrong" not in stranger.content()
    assert stranger.context.cookies() == []
