"""A trained run in the studio: relations of its own for every step, and what it predicts."""

from dataclasses import replace

import numpy as np
import pytest
from starlette.testclient import TestClient

from limner.encoders.trained import MODEL
from limner.errors import ConfigError
from limner.match.calibration import load
from limner.match.illustrate import BoardOptions
from limner.match.trained import relation_channel, run_channel
from limner.research.runs.run import Run
from limner.store.database import Database
from limner.store.search import EncodedChannel, Evidence
from limner.studio.app import create_app
from limner.studio.engine import Engine, illustrate_story
from limner.studio.routes import Studio
from limner.studio.step_edits import Constraints
from limner.text.read import read_text

pytestmark = pytest.mark.slow

TEXTS = ["The cat wrote a letter.", "Snow fell all night.", "A boat sailed away."]
TEXT = "\n\n---\n\n".join(TEXTS)


@pytest.fixture(scope="module")
def engine(library, drawings_run):
    return Engine(library, model=drawings_run)


@pytest.fixture
def client(engine, tmp_path):
    with TestClient(create_app(Studio(engine, tmp_path / "projects", tmp_path / "cache"))) as client:
        yield client


def shares(index, channel):
    """Evidence of one channel for three steps over all pictures."""
    rows = np.arange(len(index.gallery))
    return index.score([EncodedChannel.encode(channel, TEXTS)], rows).shares[channel.name]


def test_every_step_gets_the_evidence_of_its_own_relation(library, drawings_run):
    run = Run.for_library(drawings_run)
    index = Database(library).index([MODEL])
    first, second = run.model.relations[:2]
    found = shares(index, relation_channel(run, [first, None, f"{second}=-2.5"]))
    np.testing.assert_allclose(found[0], shares(index, relation_channel(run, [first] * 3))[0], atol=1e-4)
    np.testing.assert_array_equal(found[1], 0)
    due = -2.5 * shares(index, relation_channel(run, [second] * 3))[2]
    np.testing.assert_allclose(found[2], due, atol=1e-4)
    assert np.ptp(found[2]) > 0


def test_rows_are_no_longer_than_one(drawings_run):
    run = Run.for_library(drawings_run)
    channel = relation_channel(run, [f"{run.model.relations[0]}=7", run.model.relations[1], None])
    lengths = np.linalg.norm(channel.encoder.encode_text(TEXTS), axis=1)
    assert lengths.max() == pytest.approx(1)
    assert lengths[2] == 0
    assert relation_channel(run, [f"{run.model.relations[0]}=0"]).evidence.slope == 0


def test_a_relation_of_all_steps_is_that_of_the_command(engine, library, drawings_run):
    run, story = Run.for_library(drawings_run), read_text(TEXT, format="markdown").story
    name = run.model.relations[0]
    every = dict.fromkeys(range(3), name)
    board = illustrate_story(engine.illustrator(), story, BoardOptions(), Constraints(relations=every))
    assert board.steps == engine.illustrator().board(story, relations=name).steps
    index = Database(library).index([MODEL])
    deviations = replace(
        run_channel(run, Database(library)), evidence=Evidence(slope=0.0, z_slope=1.0, offset=0.0)
    )
    channels = deviations, relation_channel(run, [name] * 3)
    scored = index.score(
        [EncodedChannel.encode(one, TEXTS) for one in channels], np.arange(len(index.gallery))
    )
    for step in board.steps:
        row = list(index.gallery.ids).index(step.chosen.picture.id)
        z, asked = (float(scored.shares[one.name][step.position, row]) for one in channels)
        assert step.chosen.score == pytest.approx(load().prior * z + asked, abs=1e-3)
        assert set(step.chosen.channels) == {"model", "relation"}


def test_the_studio_asks_for_relations_and_tells_what_the_run_predicts(client, drawings_run):
    run = Run.for_library(drawings_run)
    held = client.get("/api/library").json()
    assert held["relations"] == list(run.model.relations)
    assert held["channels"] == ["model"]
    assert held["model"] == drawings_run.name
    assert set(held["wording"]["relations"]) == set(run.model.relations)
    made = client.post("/api/projects", json={"text": TEXT, "format": "markdown"}).json()
    step = made["board"]["steps"][0]
    assert set(step["relations"]) == set(run.model.relations)
    assert [word for word, _ in step["attention"]]
    name = run.model.relations[0]
    url = f"/api/projects/{made['id']}"
    edit = {"kind": "relation", "step": 1, "relation": f"{name}=3"}
    client.post(f"{url}/edits", json={"revision": 1, "edit": edit})
    asked = client.get(url).json()
    assert [one["relation"] for one in asked["steps"]] == [None, f"{name}=3", None]
    channels = [one["chosen"]["channels"] for one in asked["board"]["steps"]]
    assert "relation" not in channels[0] | channels[2]  # what has nothing to say is not named
    assert channels[1]["relation"] != 0
    strip = client.get(f"{url}/steps/0/candidates", params={"relation": name, "limit": 3}).json()["items"]
    assert all(one["channels"]["relation"] != 0 for one in strip)
    found = client.post("/api/search", json={"text": "a boat", "relation": name}).json()["items"]
    assert set(found[0]["channels"]) == {"model", "relation"}
    client.post(
        f"{url}/edits",
        json={"revision": 2, "edit": {"kind": "relation", "step": 1, "relation": None}},
    )
    assert client.get(url).json()["board"]["steps"] == made["board"]["steps"]


def test_what_a_run_cannot_do_is_said(client, engine):
    made = client.post("/api/projects", json={"text": TEXT, "format": "markdown"}).json()
    url = f"/api/projects/{made['id']}/edits"
    for edit in (
        {"kind": "relation", "step": 0, "relation": "acton"},
        {"kind": "options", "options": {"min_probability": 0.5}},
    ):
        answer = client.post(url, json={"revision": 1, "edit": edit})
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
    with pytest.raises(ConfigError, match="did you mean 'action'"):
        relation_channel(engine.model, ["acton"])
