"""What tests of pages in a browser wait for, and ask a server beside them."""

import shutil


def chromium_here() -> str | None:
    """Debian's Chromium, first the one without windows, which opens a page in a third of the time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def arrived(page, held: list):
    """The route of a request that a test holds back, once the page has made the request."""
    while not held:
        page.wait_for_timeout(20)
    return held.pop()


def without_retries(page) -> None:
    """Let the page not send again by itself what is not saved, after the 3 seconds of `RETRY_MS`."""
    page.evaluate(
        "(own => { window.setTimeout = (run, after) => (after === 3000 ? 0 : own(run, after)); })(setTimeout)"
    )


def answered(page, url: str):
    """The JSON of an address; asked again where the server closes the connection that was kept for it."""
    return page.request.get(url, max_retries=1).json()


def project_of(page) -> dict:
    """The project that a page shows, as the server has it."""
    return answered(page, page.url.replace("/projects/", "/api/projects/"))


def of_board(page, control: str) -> None:
    """Click what concerns the whole board, which on a phone is in a menu."""
    link = page.locator(control)
    if not link.is_visible():
        link = from_menu(page, page.locator("#more"), link.text_content())
    link.click()


def from_menu(page, opener, words: str):
    """Open a menu by its button; the locator of what it offers under these words."""
    opener.click()
    return page.locator(".menu-of").get_by_role("button", name=words)
