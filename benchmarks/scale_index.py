"""How indexing grows with the number of pictures, by the local engine and by Ray on this machine.

Makes: docs/results/scale.md (indexing, by number of pictures; the figure of costs)

Draws small pictures, each of its own content, indexes them with an encoder that costs next to nothing, so
that all else shows, and indexes them once more with nothing new. What is drawn and measured is kept, and so
is the last library of each engine: the same command continues. `--plot` draws the results beside those of
benchmarks/search_speed.py.

    python benchmarks/scale_index.py --pictures 10000 --folder /tmp/scale --to scale.json
    python benchmarks/scale_index.py --pictures --to scale.json --searches growth.json --plot scale.png
"""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from harness import arguments, memory_mb, processor_s
from made_up import draw

from limner.files import write_text
from limner.scale.library import PictureStore

SAMPLE_S = 0.5


def family(root):
    """Process → processor seconds and peak memory in MiB, of a process and all that it began."""
    parents, kin, found = {}, {root}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    while more := {one for one, parent in parents.items() if parent in kin} - kin:
        kin |= more
    for one in kin:
        with suppress(OSError):
            found[one] = processor_s(one), memory_mb("VmHWM", one)
    return found


def measured(command):
    """Seconds, processor seconds, peak memory of the command and of the largest process it began."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    seen = {}
    while process.poll() is None:
        for one, (seconds, peak) in family(process.pid).items():
            seen[one] = seconds, max(peak, seen.get(one, (0, 0))[1])  # one that has just ended shows none
        time.sleep(SAMPLE_S)
    out = process.stdout.read()
    assert process.returncode == 0, out
    others = [peak for one, (_, peak) in seen.items() if one != process.pid]
    return json.loads(out), {
        "seconds": round(time.monotonic() - begin, 1),
        "cpu_s": round(sum(seconds for seconds, _ in seen.values()), 1),
        "peak_mib": round(seen[process.pid][1]) if process.pid in seen else None,
        "largest_other_mib": round(max(others, default=0)),
        "processes": len(seen),
        "load": round(os.getloadavg()[1], 1),
    }


def indexed(folder, count, engine):
    """A row of the results."""
    library = folder / f"library-{engine}"
    shutil.rmtree(library, ignore_errors=True)
    command = [sys.executable, "-m", "limner", "index", str(folder / f"pictures-{count}"), "--json"]
    command += ["--library", str(library), "--encoder", "colour"]
    command += ["--engine", "ray"] if engine == "ray" else []
    report, first = measured(command)
    assert report["new"] == report["pictures"] == count, report
    again, second = measured(command)
    assert again["unchanged"] == count, again
    store = PictureStore.open(library).store
    rows = {name: store.count(name) for name in store.names()}
    held = sum(path.stat().st_size for path in library.rglob("*") if path.is_file())
    return {
        "pictures": count,
        "engine": engine,
        "pictures_per_s": round(count / first["seconds"], 1),
        "index": first,
        "bytes_per_picture": round(held / count),
        "nothing_new": second,
        "rows": rows,
    }


def plot(rows, searches, path):
    """How cost grows, in processor time and memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    titles = ("indexing", "a text of ten steps", "peak memory")
    for axis, title, unit in zip(axes, titles, ("CPU s", "CPU s", "MiB"), strict=True):
        axis.set(title=title, xlabel="pictures", ylabel=unit, xscale="log", yscale="log")
        axis.grid(alpha=0.3)

    def line(axis, found, mark, label):
        axis.plot(*zip(*found, strict=True), mark, label=label)

    for engine, mark in (("local", "o-"), ("ray", "^-")):
        own = [(row["pictures"], row) for row in rows if row["engine"] == engine]
        if own:
            line(axes[0], [(n, row["index"]["cpu_s"]) for n, row in own], mark, engine)
            line(
                axes[0],
                [(n, row["nothing_new"]["cpu_s"]) for n, row in own],
                mark + "-",
                f"{engine}, nothing new",
            )
    local = [row for row in rows if row["engine"] == "local"]
    peaks = [(row["pictures"], row["index"]["peak_mib"]) for row in local if row["index"]["peak_mib"]]
    line(axes[2], peaks, "o-", "indexing")
    line(axes[0], [(one["pictures"], one["build_cpu_s"]) for one in searches], "s-", "search index")
    line(axes[2], [(one["pictures"], one["build_mb"]) for one in searches], "s-", "building the search index")
    for kind, mark in (("approximate", "D-"), ("exact", "v-")):
        own = [(one["pictures"], one[kind]) for one in searches if kind in one]
        line(axes[1], [(n, one["cpu_s"]) for n, one in own], mark, kind)
        line(axes[2], [(n, one["mb"]) for n, one in own], mark, f"{kind} search")
    for axis in axes:
        axis.set_ylim(top=6 * axis.get_ylim()[1])
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main():
    words = arguments(__doc__)
    words.add_argument("--pictures", type=int, nargs="*", default=[10_000])
    words.add_argument("--engine", nargs="+", choices=("local", "ray"), default=["local", "ray"])
    words.add_argument("--folder", type=Path, help="for pictures (3 kB each) and libraries")
    words.add_argument(
        "--to", type=Path, required=True, help="JSON; rows that are in it are not measured again"
    )
    words.add_argument("--searches", type=Path, help="JSON of benchmarks/search_speed.py")
    words.add_argument("--plot", type=Path, help="PNG")
    options = words.parse_args()
    rows = json.loads(options.to.read_text()) if options.to.exists() else []
    for count in options.pictures:
        for engine in options.engine:
            if any((row["pictures"], row["engine"]) == (count, engine) for row in rows):
                continue
            draw(options.folder / f"pictures-{count}", count)
            rows.append(indexed(options.folder, count, engine))
            write_text(options.to, json.dumps(rows, indent=1))
            print(json.dumps(rows[-1]), flush=True)
    if options.plot:
        rows.sort(key=lambda row: row["pictures"])
        plot(rows, json.loads(options.searches.read_text()), options.plot)


if __name__ == "__main__":
    main()
