"""``limner train --smoke`` at the papers' settings, on miniatures of the data as distributed, offline."""

import pytest
import released

from limner.cli.train import train

RUNS = [
    ("cmcm/cmcm", "cite", released.cite_plus),
    ("cmcm/cmcm-visible", "clue", released.clue),
    ("complementary/hal", "goodnews", released.goodnews),
    ("gsda/gsda", "vist", released.vist),
    ("vrss/vrss", "recipeqa", released.recipeqa),
    ("vrss/vrss", "stepwise", released.stepwise),
    ("lda/lda", "recipeqa", released.recipeqa),
]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run[0]}-{run[1]}")
def test_a_published_run_shrinks_to_seconds_without_downloads(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "no-hub"))
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    row, data, made = run
    places = (f"data.annotations={made(tmp_path / 'data')}", f"data.features={tmp_path / 'features'}")
    configs = released.Path(__file__).parents[2] / "configs"
    settings = (*places, "data.vectors=random")
    train(configs / f"{row}.toml", to=tmp_path / "run", data=data, set_=settings, smoke=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert "data.backbone=tiny" in capsys.readouterr().err
