"""Finds the picture files that a text names, as people's tools write them.

A text may come from a stranger, and the files that it names are exported with it. It therefore shows only
files below its own folder, or below the Obsidian vault or web site that the folder belongs to, and pictures
of the library.
"""

import os
import re
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from limner.files import composed_text, sha256_of
from limner.records import PictureRef
from limner.text.blocks import Find

InLibrary = Callable[[Path], Path | None]
"""Function from a file to the file of the same picture in the library, or None."""
WEB = "is not a file on this machine"
MISSING = "is not there"
OUTSIDE = "lies outside the folder of the text, and is not in the library"
NO_FOLDER = "is named by a text without a folder, which can show no file"
UNREADABLE = "is no picture that can be read"
MAX_PICTURE_BYTES = 50_000_000
"""Maximum size of a picture inside a text (`data:`)."""
_SIZED = re.compile(r"-(?:\d+x\d+|scaled)(?=\.\w+$)")
"""What WordPress adds to the name of a resized picture."""


def finder(base: Path | None, in_library: InLibrary = lambda path: None) -> Find:
    """A function that finds the pictures of one text.

    Args:
        base: folder of the text; None if it has none, and then only pictures of the library are found.
        in_library: called for each existing file that the text may not show by itself.
    Returns:
        Function from target and alt text to a reference that has its file, or the reason why there is none.
    """
    files = _Files(base)
    known: dict[str, PictureRef] = {}

    def find(target: str, alt: str = "") -> PictureRef:
        if target not in known:
            known[target] = _inside(target) if target.startswith("data:") else files.find(target, in_library)
        return known[target].model_copy(update={"alt": alt})

    return find


def is_web(target: str) -> bool:
    """Whether the address of a picture is a web URL."""
    try:
        parts = urlsplit(target)
    except ValueError:  # not a URL
        return False
    return parts.scheme != "file" and (bool(parts.netloc) or len(parts.scheme) > 1)


def _inside(target: str) -> PictureRef:
    """A picture that is inside the text; its target is shortened."""
    head, _, body = target.partition(",")
    kind = head.partition(";")[0].lower()
    data, problem = b"", UNREADABLE
    if head.lower().endswith(";base64"):
        for code, sign in (("%2B", "+"), ("%2F", "/"), ("%3D", "=")):
            body = body.replace(code, sign)
        with suppress(ValueError):
            data = b64decode(f"{body}==")
    if len(data) > MAX_PICTURE_BYTES:
        data, problem = b"", f"is larger than {MAX_PICTURE_BYTES // 10**6} MB"
    digest = sha256(data or target.encode("utf-8", "replace")).hexdigest()
    short = f"{kind[:40]}#{digest[:8]}"
    if not data:
        return PictureRef(target=short, problem=problem)
    return PictureRef(target=short, sha256=digest, data=data)


class _Files:
    """Files below the folder of a text.

    Attributes:
        base: the folder, None for none.
        root: the folder, or the vault or site that it belongs to; the text may show what is below it.
        tops: further folders in which paths begin.
        is_vault: whether the root is an Obsidian vault, in which a name is enough.
    """

    def __init__(self, base: Path | None) -> None:
        self.base = self.root = base = None if base is None else base.resolve()
        self.tops: tuple[Path, ...] = ()
        self.is_vault = False
        self._entries: dict[Path, dict[str, Path]] = {}
        for folder in () if base is None else (base, *base.parents):
            self.is_vault = (folder / ".obsidian").is_dir()
            if self.is_vault or (base is not None and _is_site(folder, base)):
                self.root = folder
                self.tops = (folder,) if self.is_vault else (folder / "static", folder / "assets", folder)
                break

    def find(self, target: str, in_library: InLibrary) -> PictureRef:
        """Reference of a picture that is not inside the text."""
        if is_web(target):
            return PictureRef(target=target, problem=WEB)
        path = None
        # any of them may be no possible name of a file
        with suppress(OSError, ValueError, RuntimeError):
            path = next(filter(None, map(self._file, _names(target))), None)
        if path is None:
            return PictureRef(target=target, problem=NO_FOLDER if self.root is None else MISSING)
        path = path.resolve()
        if self.root is None or not path.is_relative_to(self.root):
            other = in_library(path)
            if other is None:
                return PictureRef(target=target, problem=NO_FOLDER if self.root is None else OUTSIDE)
            path = other
        digest = None
        with suppress(OSError):  # it cannot be read, which is reported when it is opened
            digest = sha256_of(path)
        return PictureRef(target=target, path=str(path), sha256=digest)

    def _file(self, name: str) -> Path | None:
        """File of a name, below the folder of the text, then as a path of the site, then in the vault."""
        if self.base is None or self.root is None:
            return Path(name) if PurePath(name).is_absolute() and Path(name).is_file() else None
        inner = name.lstrip("/")
        places = [(self.base, name), *((top, inner) for top in (self.base, *self.tops))]
        found = next(filter(None, (self._at(*place) for place in places)), None)
        if found is None and self.is_vault:
            end = _key(f"/{inner.removeprefix('./')}")
            named = self._by_name.get(_key(PurePath(name).name), ())
            same = [path for path in named if _key(path.as_posix()).endswith(end)]
            found = min(same, key=lambda path: (len(path.parts), str(path)), default=None)
        return found

    def _at(self, folder: Path, name: str) -> Path | None:
        """File of a path, whatever the letter case and the Unicode form of its names on the disk."""
        place = folder
        for part in PurePath(name).parts:
            place /= part
            if not place.exists():
                same = self._listed(place.parent).get(_key(part))
                if same is None:
                    return None
                place = same
        return place if place.is_file() else None

    def _listed(self, folder: Path) -> dict[str, Path]:
        if folder not in self._entries:
            there = sorted(folder.iterdir()) if folder.is_dir() else ()
            self._entries[folder] = {_key(path.name): path for path in there}
        return self._entries[folder]

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        """Files of the vault by their names."""
        found: dict[str, list[Path]] = {}
        for folder, folders, names in os.walk(self.root or ""):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                found.setdefault(_key(name), []).append(Path(folder, name))
        return found


def _is_site(folder: Path, base: Path) -> bool:
    """Whether a folder is a web site (Hugo, Jekyll) to whose sources the folder of a text belongs."""
    content = folder / "content"
    is_hugo = base.is_relative_to(content) and ((folder / "static").is_dir() or any(folder.glob("hugo.*")))
    return is_hugo or (folder / "_config.yml").is_file()


def _names(target: str) -> list[str]:
    """Names that a target may stand for, the most literal first."""
    if target.lower().startswith("file:"):
        return [url2pathname(urlsplit(target).path)]
    plain = re.split(r"[?#]", target, maxsplit=1)[0]
    names = [target, unquote(target), unquote(plain)]
    names += [name.replace("\\", "/") for name in names]
    names += [_SIZED.sub("", name) for name in names]
    return [name for name in dict.fromkeys(names) if name.strip()]


def _key(name: str) -> str:
    return composed_text(name).casefold()
