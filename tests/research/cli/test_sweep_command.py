"""``limner sweep``: the grid it trains, going on after a stop, and what it refuses before any training."""

import json

import pytest
import torch
from cyclopts import App

from limner.errors import ConfigError, DataError
from limner.research.cli.sweep import sweep
from limner.research.datasets.pairs import PairSet
from limner.research.paper import sweeps
from limner.research.paper.sweeps import POINT, Axis, folder_name, grid
from limner.research.runs.train import StoppedError
from limner.research.training.checkpoint import BEST

pytestmark = pytest.mark.slow

TOML = """
system = "cmcm"
backbone = "drawings"
[data]
set = "picturebook"
vectors = "random"
picture_px = 32
[model]
pooling = "none"
relations = "none"
[loop]
metric = "MRR"
"""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(TOML)
    return file


def run(*words):
    app = App(name="limner", suppress_keyboard_interrupt=False)
    app.command(sweep, name="it")
    app(["it", *map(str, words)], exit_on_error=False, print_error=False, result_action="return_value")


def test_axes_combine_and_joint_keys_stay_together():
    axes = [Axis.parse("loss.lam=32, 64"), Axis.parse("weights.beta,weights.gamma=1:1,1:5")]
    assert grid(axes) == [
        {"loss.lam": lam, "weights.beta": "1", "weights.gamma": gamma}
        for lam in ("32", "64")
        for gamma in "15"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loop.lr", "expected key=value"),
        ("=1,2", "expected key=value"),
        ("loop.lr=", "expected key=value"),
        ("a,=1:2", "expected key=value"),
        ("a,b=1:2,3", "'3' has 1 values for 2 keys"),
        ("a=1,,2", "'' has 1 values"),
        ("a=1,1", "is repeated"),
        ("loop.seed=0,1", "use --seed"),
    ],
)
def test_what_is_no_axis_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        Axis.parse(text)


def test_a_grid_needs_keys_and_each_once():
    with pytest.raises(ConfigError, match="no setting to vary"):
        grid([])
    with pytest.raises(ConfigError, match=r"loop\.lr is varied twice"):
        grid([Axis.parse("loop.lr=1"), Axis.parse("a,loop.lr=1:2")])


def test_folder_names_hold_settings_and_seed():
    assert (
        folder_name({"loop.lr": "1e-4", "model.pooling": "a/b"}, 3) == "loop.lr=1e-4_model.pooling=a-b_seed=3"
    )


def test_wrong_settings_are_refused_before_the_first_training(config, tmp_path):
    with pytest.raises(ConfigError, match="unknown setting"):
        run(config, "--over", "loop.rate=1", "--to", tmp_path / "sweep", "--smoke")
    with pytest.raises(ConfigError, match=r"loop\.lr"):
        run(config, "--over", "loop.lr=1e-3,fast", "--to", tmp_path / "sweep", "--smoke")
    with pytest.raises(ConfigError, match="best"):
        run(config, "--over", "loop.lr=1e-3", "--metric", "best", "--to", tmp_path / "sweep", "--smoke")
    with pytest.raises(ConfigError, match=r"not measure 'C@3' .* --set loop\.metric=C@3"):
        run(config, "--over", "loop.lr=1e-3", "--metric", "C@3", "--to", tmp_path / "sweep", "--smoke")
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_trains_all_chooses_and_goes_on_after_a_stop(config, tmp_path, capsys, monkeypatch):
    words = (config, "--over", "loop.lr=1e-9,3e-3", "--seed", "0", "--seed", "1", "--smoke")
    to = tmp_path / "sweep"
    begun = []
    whole = sweeps.train

    def counted(*arguments, **options):
        begun.append(options["to"].name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr(sweeps, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        run(*words, "--to", to)
    assert capsys.readouterr().out == ""
    run(*words, "--to", to, "--json")
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert len(begun) == 5  # two done, one stopped, then the two that were left
    assert "1/4 loop.lr=1e-9_seed=0: already done" in shown.err
    assert [(p["settings"]["loop.lr"], p["seed"]) for p in found["points"]] == [
        ("1e-9", 0), ("1e-9", 1), ("3e-3", 0), ("3e-3", 1),
    ]  # fmt: skip
    means = {
        lr: sum(p["validation"]["MRR"] for p in found["points"] if p["settings"]["loop.lr"] == lr)
        for lr in ("1e-9", "3e-3")
    }
    assert found["best"] == {"loop.lr": max(means, key=means.get)}
    assert json.loads((to / "sweep.json").read_text()) == found
    assert "2 seeds, best" in (to / "sweep.md").read_text()
    assert (to / "sweep.png").stat().st_size > 1000
    assert (to / "loop.lr=3e-3_seed=1" / BEST).is_file()

    run(*words, "--to", to, "--metric", "MedR")
    assert len(begun) == 5
    assert "best: --set loop.lr=" in capsys.readouterr().out
    with pytest.raises(DataError, match="other settings"):
        run(*words, "--to", to, "--set", "loop.weight_decay=0.1")
    point = to / "loop.lr=1e-9_seed=0" / POINT
    point.write_text(point.read_text().replace('"MRR":0.', '"MRR":1.'))
    with pytest.raises(
        DataError, match=r"damaged \(its checksum differs from its content\); remove its folder"
    ):
        run(*words, "--to", to)
    point.write_text("{}")
    with pytest.raises(DataError, match="not a finished run of a sweep"):
        run(*words, "--to", to)


@pytest.mark.parametrize("given", [True, False])
def test_a_small_sweep_takes_the_weights_that_are_given(tmp_path, monkeypatch, given):
    begun = []

    def recorded(settings, **options):
        begun.append((settings.data.backbone, settings.model.dim, options["weights"]))
        raise StoppedError

    monkeypatch.setattr(sweeps, "train", recorded)
    config = tmp_path / "config.toml"
    config.write_text('system = "vse"\n[data]\nset = "clue"\nbackbone = "resnet18"\n')
    weights = ("--weights", tmp_path / "resnet18.safetensors") if given else ()
    with pytest.raises(StoppedError):
        run(config, "--over", "loop.lr=1e-3", "--to", tmp_path / "sweep", "--smoke", *weights)
    assert begun == [("resnet18", 16, weights[1]) if given else ("tiny", 16, None)]


def test_factors_are_chosen_without_a_look_at_test_rows(tmp_path, monkeypatch):
    config = tmp_path / "combined.toml"
    config.write_text(
        'system = "complementary"\nrow = "COMBINED-VAL"\nmethod = "combined-val"\nbackbone = "drawings"\n'
        '[data]\nset = "picturebook"\nvectors = "random"\npicture_px = 32\n[loop]\nmetric = "MRR"\n'
    )
    asked, split = [], PairSet.split
    monkeypatch.setattr(PairSet, "split", lambda self, part: asked.append(part) or split(self, part))
    to = tmp_path / "sweep"
    run(config, "--over", "weights.beta,weights.gamma_hat=1:1,1:2", "--to", to, "--smoke")
    assert set(asked) == {"train", "val"}
    found = json.loads((to / "sweep.json").read_text())
    assert set(found["best"]) == {"weights.beta", "weights.gamma_hat"}
    assert len(found["points"]) == 2
    # every setting of the grid says what it was trained on
    table = (to / "sweep.md").read_text()
    assert table.count("net for drawings trained; seed 0; picturebook, grouped split") == 2
