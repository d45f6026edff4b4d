"""Which token a server asks for, and the file that leads a browser to it."""

import re
import stat
from html import unescape
from pathlib import Path
from urllib.request import url2pathname

import pytest

from limner.errors import ConfigError
from limner.server.admission import leading_to, token_of

OWN = "a-token-of-my-own"
ADDRESS = "http://127.0.0.1:8420/projects/1?token=a%2Bb&c=<"


@pytest.mark.parametrize("alone", [True, False])
def test_a_random_token_unless_one_is_given(alone):
    first, second = (token_of(None, wanted=True, alone=alone) for _ in range(2))
    assert first != second
    assert re.fullmatch(r"[\w-]{43}", first)
    assert token_of(OWN, wanted=True, alone=alone) == OWN
    assert token_of("!" * 15 + "~", wanted=True, alone=alone) == "!" * 15 + "~"


@pytest.mark.parametrize(
    "given", ["", "short", "x" * 15, "sixteen letters and blanks", "ö" * 20, "x" * 20 + "\n"]
)
def test_a_token_that_could_be_guessed_or_does_not_fit_a_header_is_refused_and_not_repeated(given):
    with pytest.raises(ConfigError, match=f"found {len(given)} characters, expected at least 16") as error:
        token_of(given, wanted=True, alone=True)
    assert len(given) < 2 or given not in str(error.value)


def test_none_only_where_it_was_asked_for_and_on_this_machine():
    assert token_of(None, wanted=False, alone=True) is None
    with pytest.raises(ConfigError, match="--no-token: anyone on the network"):
        token_of(None, wanted=False, alone=False)
    with pytest.raises(ConfigError, match="--no-token: a token is set too") as error:
        token_of(OWN, wanted=False, alone=True)
    assert OWN not in str(error.value)


def test_a_browser_is_led_by_a_file_that_its_owner_alone_reads(tmp_path):
    near = tmp_path / "cache of mine"
    with leading_to(ADDRESS, near) as url:
        assert "token" not in url
        file = Path(url2pathname(url.removeprefix("file://")))
        assert near in file.parents
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        text = file.read_text(encoding="utf-8")
        assert unescape(re.search('content="0;url=([^"]*)"', text)[1]) == ADDRESS
    assert not file.exists()
    assert list(near.iterdir()) == []


def test_where_that_folder_cannot_be_written_to_it_lies_with_the_temporary_files(tmp_path):
    (tmp_path / "file").touch()
    with leading_to(ADDRESS, tmp_path / "file" / "below") as url:
        file = Path(url2pathname(url.removeprefix("file://")))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert tmp_path not in file.parents
    assert not file.parent.exists()
