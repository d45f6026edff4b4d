"""`python -m benchmarks --list`: which figure of which page each benchmark makes."""

import argparse
import ast
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    """A script, what it is in a line, and the figures that it makes."""

    path: Path
    summary: str
    makes: str

    @property
    def pages(self) -> list[Path]:
        """Pages that hold its figures."""
        return [FOLDER.parent / name for name in re.findall(r"docs/[\w/.-]+\.md", self.makes)]


def benchmarks() -> list[Benchmark]:
    """All scripts that run by themselves, by name; what they share makes no figure."""
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if 'if __name__ == "__main__":' in text and path.name != Path(__file__).name:
            about = ast.get_docstring(ast.parse(text)) or ""
            makes = re.search(r"^Makes: (.+?)(?=\n\n|\Z)", about, re.DOTALL | re.MULTILINE)
            found.append(
                Benchmark(path, about.partition("\n")[0], " ".join(makes[1].split()) if makes else "")
            )
    return found


def main() -> None:
    """Print the list; what a benchmark takes is in its own --help."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print all benchmarks, the default")
    parser.parse_args()
    for one in benchmarks():
        print(f"benchmarks/{one.path.name}\n  {one.summary}\n  {one.makes}")


if __name__ == "__main__":
    main()
