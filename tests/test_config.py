import pytest
from pydantic import model_validator

from limner.config import Record, build, differences, load
from limner.errors import ConfigError


class Train(Record):
    lr: float = 1e-3
    epochs: int = 3


class Run(Record):
    name: str = "x"
    train: Train = Train()


def test_overrides_are_typed_and_nested():
    run = build(Run, {"train": {"epochs": 2}}, "here", ["train.lr=2e-4", "name=clue"])
    assert run == Run(name="clue", train=Train(lr=2e-4, epochs=2))


def test_overrides_leave_the_given_values_alone():
    values = {"train": {"epochs": 2}}
    build(Run, values, "here", ["train.epochs=9"])
    assert values == {"train": {"epochs": 2}}


@pytest.mark.parametrize(
    ("values", "overrides", "parts"),
    [
        ({"train": {"ephocs": 2}}, [], ["here", "train.ephocs", "did you mean 'train.epochs'"]),
        ({"nmae": "a"}, [], ["nmae", "did you mean 'name'"]),
        ({"train": {"epochs": "many"}}, [], ["train.epochs", "integer", "many"]),
        ({}, ["train.lr"], ["expected key=value"]),
        ({}, ["name.lr=1", "name=2"], ["name"]),
        ({"name": "a"}, ["name.lr=1"], ["is a value, not a table"]),
        ({"a": 1, "b": 2}, [], ["and 1 more"]),
        ({}, ["train.epochs=" + "9" * 5000], ["999", "expected a smaller number"]),
        ({}, ["train.epochs=1" + "0" * 30], ["train.epochs", "2^63"]),
        ({}, ["train.lr=1e999"], ["train.lr", "2^63"]),
        ({"train": {"lr": [float("nan")]}}, [], ["train.lr", "2^63"]),
        ({"train": {"epochs": 16**5000}}, [], ["train.epochs", "2^63"]),
    ],
)
def test_a_wrong_setting_is_one_clear_line(values, overrides, parts):
    with pytest.raises(ConfigError) as caught:
        build(Run, values, "here", overrides)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_load_names_the_file_and_the_line(tmp_path):
    path = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match="cannot be read"):
        load(Run, path)
    path.write_text("name = \n")
    with pytest.raises(ConfigError, match=r"run\.toml: not valid TOML .*line 1"):
        load(Run, path)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(Run, path)
    path.write_text(f"[train]\nepochs = {'9' * 5000}\n")
    with pytest.raises(ConfigError, match=r"run\.toml: not valid TOML .*5000 digits"):
        load(Run, path)
    path.write_text("[train]\nlr = 0.5\n")
    assert load(Run, path).train.lr == 0.5


class Range(Record):
    low: int
    high: int

    @model_validator(mode="after")
    def _in_order(self):
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}; swap them")
        return self


def test_settings_that_do_not_go_together_are_one_clear_line():
    with pytest.raises(ConfigError, match=r"^here: low 2 is above high 1; swap them$"):
        build(Range, {"low": 2, "high": 1}, "here")


def test_differences_name_settings_with_both_values():
    was = {"loop": {"lr": 1}, "run": {"config": {"loop": {"lr": 1}, "name": "a"}, "words": [1]}}
    now = {"loop": {"lr": 2}, "run": {"config": {"loop": {"lr": 2}, "name": "a"}, "words": [1, 2]}}
    assert differences(was, now) == "loop.lr was 1, now 2"  # and not what follows from it
    assert differences({"words": ["x" * 90]}, {}).startswith("words was ['xxx")
    assert len(differences({"words": ["x" * 90]}, {})) < 70
    assert differences(now, now) == ""
