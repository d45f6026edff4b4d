"""The commands whose outputs are recorded, and the files they read.

Names are those of the recorded files and stay; words change with the command line. All run in one folder.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from safetensors.torch import save
from torchvision import models

CONFIGS = Path(__file__).parents[2] / "configs"


@dataclass(frozen=True)
class Case:
    """A command.

    Attributes:
        name: of the recorded file.
        command: words, parted by spaces; ``'…'`` holds words together, ``@`` is the folder of settings.
        files: patterns of the files it leaves that are recorded beside what it prints.
        after: names of the commands that must have run before.
        before: what makes its files of theirs, called with the folder.
    """

    name: str
    command: str
    files: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: Callable[[Path], None] = lambda work: None


COMMANDS = (
    "",
    *("index", "illustrate", "search", "calibrate", "evaluate", "train", "sweep", "measure", "table"),
    *("figure", "scenes", "data", "data audit", "data fetch", "data build-recipes", "data build-prior"),
    *("models", "models list", "models export", "models get", "studio", "study", "study serve"),
    *("study preferences", "study create", "study status", "study export", "study report", "demo"),
)


def helped() -> Iterator[Case]:
    for words in COMMANDS:
        yield Case(f"help-{words.replace(' ', '-')}".strip("-"), f"{words} --help".strip())


KITE, SHORE, SUPPER = (
    f"demo/texts/{name}" for name in ("finns-kite.md", "the-far-shore.txt", "birthday-supper.html")
)


def boards() -> Iterator[Case]:
    """Storyboards of the drawn collection."""
    for name, text, suffix, words in (
        ("kite", KITE, "json", "--json"),
        ("kite", KITE, "md", ""),
        ("kite", KITE, "html", ""),
        ("kite", KITE, "pptx", ""),
        ("kite", KITE, "pdf", ""),
        ("supper-given", SUPPER, "json", ""),
        ("supper-anew", SUPPER, "json", "--ignore-given"),
        ("shore-blank", SHORE, "json", "--min-score 0.3"),
        ("shore-blank", SHORE, "html", "--min-score 0.3"),
        ("shore-blank", SHORE, "pdf", "--min-score 0.3"),
        ("shore-sentences", SHORE, "json", "--by sentence"),
        ("shore-pins", SHORE, "json", "--pin 1=shore/IMG_0015.jpg --pin 2=none --ban shore/IMG_0002.jpg"),
        ("kite-pins", KITE, "json", "--pin 1=shore/IMG_0001.jpg --pin 3=none --ban kite/IMG_0012.jpg"),
        ("kite-repeats", KITE, "json", "--allow-repeats --set runners_up=1"),
        ("kite-chain", KITE, "json", "--decoder chain"),
        ("kite-beam", KITE, "json", "--decoder beam --min-score 0"),
        ("kite-greedy", KITE, "json", "--decoder greedy --min-score 0"),
        ("kite-off", KITE, "json", "--decoder off"),
        ("kite-pull", KITE, "json", "--set pair_weight=2 --set context=0.5"),
        ("kite-alone", KITE, "json", "--settings board.toml"),
        ("kite-captions", KITE, "json", "--channel captions"),
        ("kite-pixels", KITE, "json", "--channel base"),
        ("tongues", "tongues.md", "json", ""),
        ("tongues", "tongues.md", "html", ""),
    ):
        out = f"boards/{name}.{suffix}"
        command = f"illustrate {text} --library demo/library -o {out} {words}"
        files = (out, f"boards/{name}*/*") if suffix == "md" else (out,)
        yield Case(f"illustrate-{name}-{suffix}", command, files, after=("demo",))
    for decoder in ("anchor", "chain"):
        out = f"boards/unworded-{decoder}.json"
        words = f"illustrate {KITE} --library demo/library-without-words -o {out} --decoder {decoder}"
        yield Case(f"illustrate-unworded-{decoder}", words, (out,), after=("demo",))
    for name, words in (
        ("exists", f"illustrate {KITE} --library demo/library -o board.toml"),
        ("pin", f"illustrate {KITE} --library demo/library -o boards/x.json --pin 1=nothing.jpg"),
        ("step", f"illustrate {KITE} --library demo/library -o boards/x.json --pin 99=none"),
        ("library", f"illustrate {KITE} --library nowhere -o boards/x.json"),
        ("text", "illustrate nowhere.md --library demo/library -o boards/x.json"),
        ("option", f"illustrate {KITE} --library demo/library -o boards/x.json --set decodr=chain"),
    ):
        yield Case(f"refused-{name}", words, after=("demo",))


def library() -> Iterator[Case]:
    yield Case("demo", "demo demo", ("demo/*.html", "demo/texts/*", "demo/answers.json", "demo/**/*.txt"))
    sources = "demo/pictures/kite demo/pictures/supper"
    yield Case("index-colour", f"index {sources} --library colour --encoder colour --json", after=("demo",))
    yield Case("index-again", f"index {sources} --library colour --encoder colour", after=("index-colour",))
    yield Case(
        "index-more",
        "index demo/pictures/shore list.csv --library colour --encoder colour --workers 1",
        after=("index-again",),
    )
    yield Case("index-refused", "index nowhere --library colour2", after=())
    for name, words in (
        ("boat", "'a boat on the sea' --library demo/library -k 5"),
        ("base", "'a bear sleeps' --library demo/library --channel base -k 5"),
        ("captions", "'a bear sleeps' --library demo/library --channel captions -k 5"),
        ("german", "'ein Bär schläft im Bett' --library demo/library -k 5"),
        ("unworded", "'a large flower' --library demo/library-without-words -k 5"),
    ):
        yield Case(f"search-{name}", f"search {words} --json", after=("demo",))
    yield Case(
        "search-table", "search 'sailing away over the water' --library demo/library -k 3", after=("demo",)
    )
    yield Case("models-list", "models list --json")


# Runs of seconds on drawn picture books: name, settings file, more words.
TRAINED = (
    ("cmcm", "@/cmcm/cmcm.toml --data picturebook", ""),
    ("cmca", "@/cmcm/cmca.toml --data picturebook", ""),
    ("vse", "@/complementary/vse++.toml --data picturebook", ""),
    ("pvse", "pvse.toml", "--set method=pvse"),
    ("diversity", "pvse.toml", "--set method=diversity --set row=DIVERSITY"),
    ("discrepancy", "pvse.toml", "--set method=discrepancy --set row=DISCREPANCY"),
    ("hal", "pvse.toml", "--set method=hal --set row=HAL"),
    ("gsda", "@/gsda/gsda.toml --data picturebook", ""),
    ("vrss", "@/vrss/vrss.toml --data picturebook", ""),
    ("cnsi", "@/cnsi/cnsi.toml --data picturebook", ""),
    ("dual", "@/dual/recurrent.toml --data picturebook", ""),
    ("lda", "@/lda/lda.toml --data picturebook", ""),
)
MEASURED = ("cmcm", "vse", "pvse", "diversity", "gsda", "vrss", "cnsi", "dual", "lda")
DRAWN = "--set data.vectors=random --set data.picture_px=32"
LEFT = ("history.jsonl", "refinement.json", "model.safetensors", "pair_scores.safetensors", "left_out.jsonl")
LEFT += ("pull.json",)


def trained() -> Iterator[Case]:
    """Runs, their results, and the tables and figures of them."""
    for name, config, more in TRAINED:
        words = f"{more} {DRAWN}" if name in ("cmcm", "cmca") else more
        left = tuple(f"runs/{name}/{file}" for file in LEFT)
        yield Case(f"train-{name}", f"train {config} --to runs/{name} --smoke --json {words}", left)
    yield Case(
        "train-document",
        "train @/document/document.toml --data picturebook --to document --json --set data.stories=30 "
        "--set data.picture_px=32 --set loop.epochs=2 --set data.batch=8 --set model.dim=8",
        tuple(f"document/{file}" for file in LEFT),
    )
    yield Case(
        "train-again",
        "train @/vrss/vrss.toml --data picturebook --to runs/vrss --smoke",
        after=("train-vrss",),
    )
    yield Case("train-refused", "train @/vrss/vrss.toml --data picturebook --to no --set loop.lrr=1")
    yield Case("train-unset", "train @/vrss/vrss.toml --data stories --to no --smoke")
    runs = " ".join(f"runs/{name}" for name in MEASURED)
    yield Case(
        "measure",
        f"measure {runs} --choices 3 --distractors choices --json",
        tuple(f"runs/*/{kind}/**/*" for kind in ("results", "choices")),
        after=tuple(f"train-{name}" for name in MEASURED),
    )
    yield Case(
        "measure-val",
        "measure runs/cmcm runs/cmca runs/gsda runs/dual --part val --no-saliency --json",
        ("runs/cmca/results/**/*",),
        after=("train-cmca", "measure"),
    )
    for table, form in (
        ("cmcm-4", "md"),
        ("cmcm-5", "md"),
        ("cmcm-5", "latex"),
        ("cmcm-7", "md"),
        ("cmcm-8", "html"),
        ("complementary-2", "md"),
        ("complementary-3", "md"),
        ("vrss-1", "md"),
        ("vrss-1", "html"),
        ("gsda-1", "md"),
    ):
        words = f"table {table} --runs runs --data picturebook --resamples 50 --format {form}"
        yield Case(f"table-{table}-{form}", words, after=("measure",))
        if form == "md":
            yield Case(f"table-{table}-published", f"table {table}")
    yield Case("table-cmcm-5-smoke", "table cmcm-5 --smoke --resamples 50")
    for figure, words in (
        ("cmcm-3a", ""),
        ("cmcm-3b", "--run runs/cmcm"),
        ("cmcm-5", "--runs runs --data picturebook --resamples 50"),
        ("cmcm-6", "--run runs/cmcm --run runs/vse --count 2"),
        ("cmcm-7", "--run runs/cmcm --count 2"),
        ("cmcm-8", "--runs runs --data picturebook --resamples 50"),
        ("complementary-scores", "--run runs/diversity"),
        ("complementary-weights", "--run runs/diversity"),
        ("vrss-attention", "--run runs/vrss --count 1"),
    ):
        out = f"boards/{figure}.svg"
        yield Case(f"figure-{figure}", f"figure {figure} --to {out} {words}", (out,), after=("measure-val",))
    for figure, words in (
        ("complementary-3", "--run runs/pvse --run runs/diversity --count 1"),
        ("complementary-4", "--run runs/diversity --count 2"),
        ("vrss-galleries", "--run runs/vrss --run runs/dual --count 1"),
        ("vrss-topic", "--run runs/vrss --count 1"),
        ("gsda-strips", "--run runs/gsda --run runs/dual --count 1"),
    ):
        out = f"boards/{figure}.html"
        yield Case(f"figure-{figure}", f"figure {figure} --to {out} {words}", (out,), after=("measure-val",))
    yield Case(
        "sweep",
        "sweep @/vrss/vrss.toml --data picturebook --over loop.lr=1e-9,1 --to sweep --smoke --json",
        ("sweep/sweep.md", "sweep/sweep.json"),
    )


def told() -> Iterator[Case]:
    """What trained runs do for a library."""
    yield Case(
        "index-model",
        "index demo/pictures/kite demo/pictures/shore --library told --encoder colour "
        "--model runs/cmcm --metric document",
        after=("demo", "train-cmcm", "train-document"),
    )
    yield Case(
        "index-story-model",
        "index demo/pictures/kite --library told-vrss --encoder colour --model runs/vrss",
        after=("demo", "train-vrss"),
    )
    yield Case(
        "index-model-refused", "index demo/pictures/kite --library no --model runs/lda", after=("train-lda",)
    )
    for name, words, suffix in (
        ("model", "--library told --model runs/cmcm", "json"),
        ("model", "--library told --model runs/cmcm", "html"),
        ("relation", "--library told --model runs/cmcm --relation action=5", "json"),
        ("metric", "--library told --metric document --pin 1=kite/IMG_0001.jpg", "json"),
        ("story-model", "--library told-vrss --model runs/vrss", "json"),
    ):
        out = f"boards/{name}.{suffix}"
        command = f"illustrate {KITE} {words} -o {out} --set runners_up=1"
        yield Case(f"illustrate-{name}-{suffix}", command, (out,), after=("index-model", "index-story-model"))
    words = "search 'a boat on the sea' --library told --model runs/cmcm --json -k 3"
    yield Case("search-model", words, after=("index-model",))
    words = "--channel captions --channel base --decoder off --decoder anchor"
    yield Case(
        "evaluate", f"evaluate demo --library demo/library {words} --json", after=("demo",), before=hashed
    )
    words = "evaluate demo --library colour --decoder off"
    yield Case("evaluate-text", words, after=("index-more",), before=hashed)
    yield Case(
        "evaluate-qrels",
        "evaluate --library demo/library --qrels qrels.txt --topics topics.tsv --channel captions --json",
        after=("demo",),
    )
    yield Case(
        "calibrate",
        "calibrate --library calibrated --channel base",
        ("calibrated/calibration.json",),
        ("index-calibrated",),
    )
    yield Case("index-calibrated", "index demo/pictures --library calibrated", after=("demo",))


FILED = "--smoke --json --set loop.metric=MRR --weights weights --set data.features=features"


def filed() -> Iterator[Case]:
    """Data sets that lie in files, and runs on stored features of them."""
    for name, config, words in (
        (
            "filed-cmcm",
            "@/cmcm/cmca.toml --data captions",
            "--set data.annotations=. --set data.split=grouped",
        ),
        (
            "filed-stages",
            "@/dual/mean.toml --data stories",
            "--set data.annotations=. --set data.split=released",
        ),
        ("filed-grid", "@/lda/lda.toml --data stories", "--set data.annotations=. --set data.split=released"),
        (
            "filed-finetuned",
            "@/cmcm/base.toml --data stories",
            "--set data.annotations=. --set data.limit=8 --finetune",
        ),
        ("filed-base", "base.toml", ""),
    ):
        command = f"train {config} --to filed/{name} {FILED} --set data.backbone=resnet18 {words}"
        if name == "filed-base":
            command = command.replace("--set data.backbone=resnet18", "").replace("--weights weights", "")
        left = tuple(f"filed/{name}/{file}" for file in LEFT)
        yield Case(f"train-{name}", command, left, after=("demo",))
    yield Case(
        "measure-filed",
        "measure filed/filed-cmcm filed/filed-stages filed/filed-grid --weights weights --json",
        ("filed/*/results/**/*",),
        after=("train-filed-cmcm", "train-filed-stages", "train-filed-grid"),
    )
    yield Case(
        "models-export", "models export filed/filed-base -o base.safetensors", after=("train-filed-base",)
    )
    for name, words in (
        ("stories", "stories --annotations . --draws 5"),
        ("stories-json", "stories --annotations . --draws 5 --json"),
        ("captions", "captions --annotations . --json --draws 0"),
        ("folder", "folder --annotations demo/pictures --draws 5"),
        ("pairs", "pairs --annotations pairs.jsonl --draws 0"),
        ("vist", "vist --annotations ."),
        ("unknown", "storiez --annotations ."),
    ):
        yield Case(f"audit-{name}", f"data audit {words}", after=("demo",))
    yield Case(
        "build-recipes",
        "data build-recipes guide.html --to recipes --json",
        ("recipes/*.jsonl", "recipes/*.json"),
        after=("demo",),
    )
    yield Case(
        "build-prior",
        "data build-prior relationships.json --to prior.safetensors --json",
        ("prior.safetensors",),
    )
    yield Case(
        "scenes",
        "scenes demo/pictures/kite --graphs graphs.jsonl --to scenes --page 3",
        ("scenes/graphs.jsonl", "scenes/scenes.html", "scenes/skipped.jsonl"),
        after=("demo",),
    )


def studied() -> Iterator[Case]:
    """Studies of people."""
    files = ("study/items.jsonl", "study/key.json", "study/population.json", "study/study.json")
    words = "study create study --items items.jsonl --names ours,theirs --checks 0.2"
    yield Case("study-create", words, files, after=("demo",))
    for name, words in (
        ("status", "status study --votes votes.jsonl"),
        ("status-json", "status study --votes votes.jsonl --json"),
        ("report-md", "report study --votes votes.jsonl --resamples 50"),
        ("report-latex", "report study --votes votes.jsonl --resamples 50 --format latex"),
        ("report-html", "report study --votes votes.jsonl --resamples 50 --format html"),
        ("report-json", "report study --votes votes.jsonl --resamples 50 --format json"),
    ):
        yield Case(f"study-{name}", f"study {words}", after=("study-create",))
    runs = "--tested runs/cmcm --control runs/vse"
    words = f"study create study-runs {runs} --relation action --relation story --size 4 --json"
    yield Case("study-runs", words, ("study-runs/items.jsonl", "study-runs/key.json"), after=("measure",))
    runs = "--tested runs/vrss --control runs/vse"
    words = f"study create study-ticks --protocol tick-all {runs} --size 1 --checks 0"
    yield Case("study-ticks", words, ("study-ticks/items.jsonl", "study-ticks/key.json"), after=("measure",))
    boards = "--tested boards/kite-beam.json --control boards/kite-greedy.json"
    yield Case(
        "study-boards",
        f"study create study-boards {boards} --size 0",
        ("study-boards/items.jsonl", "study-boards/key.json"),
        after=("illustrate-kite-beam-json", "illustrate-kite-greedy-json"),
    )


def lines(rows: Iterable[object]) -> str:
    """Rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def hashed(work: Path) -> None:
    """The stories beside their pictures, which they name by their bytes as well."""
    rows = [json.loads(line) for line in (work / "stories.jsonl").read_text().splitlines()]
    for page in (page for row in rows for page in row["pages"]):
        page["sha256"] = sha256((work / page["image"]).read_bytes()).hexdigest()
        page["image"] = page["image"].removeprefix("demo/")
    (work / "demo" / "stories.jsonl").write_text(lines(rows), encoding="utf-8")


def weights() -> bytes:
    """A small backbone that knows nothing."""
    torch.manual_seed(1)
    state = models.resnet18(weights=None, num_classes=3).state_dict()
    return save({key: value.contiguous() for key, value in state.items()})


# Folder of the demonstration → number of pictures, suffix, and what its tests are.
SHOWN = {"kite": (15, "jpg", "test"), "supper": (14, "png", "train"), "s000": (8, "jpg", "train")}
SHOWN |= {"shore": (15, "jpg", "train"), "s001": (7, "jpg", "val"), "s002": (7, "jpg", "val")}
WORDS = (
    "wakes up early",
    "runs up the green hill",
    "flies a kite in the wind",
    "eats warm soup",
    "sleeps in bed",
)
PAGES = {
    story: [
        (
            f"demo/pictures/{story}/IMG_{n:04}.{suffix}",
            f"In {story} someone {WORDS[n % 5]} on day {n} of the journey.",
        )
        for n in range(1, count + 1)
    ]
    for story, (count, suffix, _) in SHOWN.items()
}

CASES = (*helped(), *library(), *boards(), *trained(), *told(), *filed(), *studied())

FILES = {
    "boards/here": "",
    "pvse.toml": 'system = "complementary"\nrow = "PVSE"\nbackbone = "drawings"\n'
    '[data]\nset = "picturebook"\n[loop]\nmetric = "MRR"\n[weights]\nlam = 8\n',
    "board.toml": 'decoder = "chain"\ncontext = 0\npair_weight = 0\n',
    "list.csv": "path,caption\ndemo/pictures/s000/IMG_0001.jpg,a drawing of the list\n",
    "tongues.md": """# Vier Bilder

Der Fuchs lässt auf dem Hügel einen Drachen steigen, und der Wind trägt ihn hoch über die Wiesen.

Une fille navigue sur la mer dans un bateau à la voile blanche.

## 3

Медведь печёт пирог на кухне.

Xyzzy qwrt plugh.
""",
    "stories.jsonl": lines(
        {
            "story_id": story,
            "title": f"Story {story}",
            "split": SHOWN[story][2],
            "source": story[0],
            "pages": [{"image": image, "text": text} for image, text in pages],
        }
        for story, pages in PAGES.items()
    ),
    "captions.jsonl": lines(
        {"file_name": image, "split": SHOWN[story][2], "captions": [text, f"A picture of {story}. {text}"]}
        for story, pages in PAGES.items()
        for image, text in pages
    ),
    "pairs.jsonl": lines(
        {"id": f"{story}-{n}", "text": text, "image": image, "seq": story, "pos": n, "split": SHOWN[story][2]}
        for story, pages in PAGES.items()
        for n, (image, text) in enumerate(pages)
    ),
    "weights/resnet18.safetensors": weights,
    "base.toml": 'system = "base"\nrow = "base"\nheads_epochs = 1\n[data]\nset = "captions"\n'
    'annotations = "."\nsplit = "released"\n',
    "qrels.txt": "q1 0 69bff79e28dd662b7d28ea7ad15c5bd2f30b0ce1a6c367754c40cfacbe0ad70b 1\n"
    "q2 0 143190add59ca71588f741a08a6c7b9613e610d54fcfa4efaaa967b9de9b33d0 1\n",
    "topics.tsv": "q1\ta fox sleeps in a bed\nq2\ta girl sails a boat\n",
    "relationships.json": json.dumps(
        [
            {
                "image_id": n,
                "relationships": [
                    {
                        "predicate": predicate,
                        "subject": {"name": one, "x": 0, "y": 0, "w": 10, "h": 10},
                        "object": {"name": other, "x": 5, "y": 0, "w": 10, "h": 10 + n},
                    }
                    for predicate, one, other in (("on", "man", "horse"), ("near", "dog", "man"))[: 1 + n % 2]
                ],
            }
            for n in range(6)
        ]
    ),
    "graphs.jsonl": lines(
        {
            "image": f"IMG_{n:04}",
            "objects": [
                {"label": "fox", "box": [0.1, 0.2, 0.5, 0.9], "score": 0.9},
                {"label": "kite", "box": [0.4, 0.0, 0.8, 0.3], "score": 0.8},
            ],
            "relations": [{"s": 0, "p": "holds", "o": 1, "score": 0.7}] if n % 2 else [],
        }
        for n in range(1, 16)
    ),
    "items.jsonl": lines(
        {
            "id": f"t{n}",
            "text": f"The fox waits for the {n}. time.",
            "tested": f"demo/pictures/kite/IMG_{n:04}.jpg",
            "control": f"demo/pictures/kite/IMG_{n + 1 if n % 4 else n:04}.jpg",
            "stratum": "Story" if n % 2 else "Action",
        }
        for n in range(1, 11)
    ),
    "votes.jsonl": lines(
        {
            "item": f"i{n:05}",
            "rater": f"r{rater}",
            "answer": ("first", "second", "first", "neither")[(n * 7 + rater * (n % 3)) % 4],
            "shown_order": ["first", "second"],
            "seconds": 2.5,
            "time": "2026-03-01T00:00:00Z",
        }
        for n in (1, 2, 3, 4, 6, 7, 9, 10, 11, 12)  # those that are shown
        for rater in range(3)
    ),
    "guide.html": """<!doctype html><html lang="en"><head><title>How to fly a kite</title></head>
<body><article>
<h1>How to fly a kite</h1><ol>
<li><p>Spread the new kite out on the dry grass and tie the long line to its wooden frame.</p>
<img src="demo/pictures/kite/IMG_0012.jpg" alt="a fox and a kite"></li>
<li><p>Run against the strong wind until the kite climbs high above the hills and the trees.</p>
<img src="demo/pictures/kite/IMG_0014.jpg" alt="the kite flies"></li>
<li><p>Pull the string in slowly before the evening comes, and carry the kite back home.</p>
<img src="demo/pictures/kite/IMG_0010.jpg" alt="the kite is stuck"></li>
</ol></article></body></html>
""",
}
