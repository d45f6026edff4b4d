"""Every file of a folder damaged, one at a time, to see that ``limner verify`` names it."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper

from limner.cli.main import run

WRONG = ("damaged", "missing")


def verified(folder):
    """Status, and path → state and advice."""
    out = TextIOWrapper(BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(StringIO()):
        status = run(["verify", str(folder), "--json"])
    out.flush()
    told = out.buffer.getvalue()
    return status, {one["path"]: (one["state"], one["advice"]) for one in json.loads(told)}


def unnamed(folder, *, again="no such folder"):
    """Damage that is neither named nor was announced as out of reach: how, and the file.

    Args:
        folder: in which all that is checked is sound; it is left so.
        again: folder in it of what is made again when it is gone.
    """
    status, before = verified(folder)
    assert status == 0, before
    left = []
    for file in sorted(one for one in folder.rglob("*") if one.is_file() and one.stat().st_size):
        if any(state == "not checked" and path.startswith(str(file)) for path, (state, _) in before.items()):
            continue
        if file.name.endswith("-shm"):  # of SQLite, which makes it at every start
            continue
        data = file.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes((data[middle] ^ 4,)) + data[middle + 1 :]
        for how, content in (("flipped", flipped), ("cut", data[:middle]), ("gone", None)):
            if content is None and file.is_relative_to(folder / again):
                continue
            file.unlink()
            if content is not None:
                file.write_bytes(content)
            status, found = verified(folder)
            holders = {str(file), *map(str, file.parents)}
            named = [
                path
                for path, (state, advice) in found.items()
                if state in WRONG and (path == str(file) or (path in holders and file.name in advice))
            ]
            admitted = found.get(str(file), ("", ""))[0] == "not checked"
            if not ((status == 1 and named) or admitted):
                left.append((how, str(file.relative_to(folder))))
            file.write_bytes(data)
    return left
