"""The page of a latent topic holds the numbers of its run, in order, and only what validation may show."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from limner.errors import ConfigError
from limner.research.cli.figure import figure
from limner.research.runs.run import Run
from limner.research.training.corpus import open_corpus

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[3] / "configs" / "vrss" / "vrss.toml"
STEP = re.compile(
    r'<li id="step(\d+)">(.*?)<dt>moved</dt><dd>([\d.]+)</dd>(.*?)<dt>KL</dt><dd>([\d.]+) nats</dd>(.*?)</dl>'
    r'\s*<ol class="found">(.*?)</ol>',
    re.DOTALL,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, train_tiny):
    return train_tiny(tmp_path_factory.mktemp("topic") / "vrss", config=CONFIG)


def stories(config, part="val"):
    data, rows = open_corpus(config.data)
    told = {}
    for pair in sorted(data.split(part), key=lambda pair: (pair.seq, pair.pos)):
        told.setdefault(pair.seq, []).append(pair)
    return told, rows, data.split(part)


def by_hand(model, texts):
    """Distances and divergences, number by number."""
    made = model.story(texts)
    mean, log_variance, prior, prior_log = (part.double().tolist() for part in (*made.posterior, *made.prior))
    moved, divergence, before = [], [], [0.0] * len(mean[0])
    for step, own in enumerate(mean):
        moved.append(math.dist(own, before))
        before = own
        total = 0.0
        for z, value in enumerate(own):
            q, p = math.exp(log_variance[step][z]), math.exp(prior_log[step][z])
            total += 0.5 * (math.log(p / q) + (q + (value - prior[step][z]) ** 2) / p - 1)
        divergence.append(total)
    return moved, divergence


def test_the_page_says_what_the_run_does(run, tmp_path):
    opened = Run.open(run)
    model, config = opened.model, opened.config
    told, rows, pairs = stories(config)
    name = list(told)[-1]
    own = told[name]
    figure("vrss-topic", to=tmp_path / "t.html", run=(run,), text=(name,))
    page = (tmp_path / "t.html").read_text()
    found = STEP.findall(page)
    moved, divergence = by_hand(model, [pair.text for pair in own])
    assert [int(step) for step, *_ in found] == list(range(1, len(own) + 1))
    assert [entry[2] for entry in found] == [f"{value:.2f}" for value in moved]
    assert [entry[4] for entry in found] == [f"{value:.2f}" for value in divergence]

    ids = list(dict.fromkeys(pair.image_id for pair in pairs))
    images = model.encode_image(rows.take(rows.places(ids)))
    texts = model.encode_stories([[pair.text for pair in own]])[0]
    for entry, pair, vector in zip(found, own, texts, strict=True):
        scores = images @ vector
        place = 1 + int((scores > scores[ids.index(pair.image_id)]).sum())
        assert pair.text in entry[1]
        assert f"Its own picture is at place {place} of {len(ids)}." in entry[1]
        shown = [float(value.replace("−", "-")) for value in re.findall(r"\d: (−?[\d.]+)</p>", entry[6])]
        np.testing.assert_allclose(shown, np.sort(scores)[::-1][:5], atol=0.006)
        assert entry[6].count("<img") == (5 if place <= 5 else 6)
        assert ('class="own"' in entry[6]) == (place <= 5)
        assert ('class="sought"' in entry[6]) == (place > 5)
    assert f"{len(pairs)} steps of {len(told)} validation stories" in " ".join(page.split())


def test_bars_reach_from_nothing_to_the_greatest(run, tmp_path):
    figure("vrss-topic", to=tmp_path / "t.html", run=(run,))
    page = (tmp_path / "t.html").read_text()
    config = Run.open(run).config
    first = next(name for name, pairs in stories(config)[0].items() if len(pairs) > 1)
    assert f"<h1>The latent topic of {first}</h1>" in page
    lengths = [int(value) for value in re.findall(r'class="long" width="(\d+)"', page)]
    marks = [int(value) for value in re.findall(r'class="usual" d="M(\d+) ', page)]
    for number in (0, 1):
        assert len(set(marks[number::2])) == 1
        assert max(lengths[number::2] + marks[number::2]) == 1000
    values = [float(entry[2]) for entry in STEP.findall(page)]
    np.testing.assert_allclose(np.divide(lengths[::2], lengths[0]), np.divide(values, values[0]), atol=0.05)


def test_the_page_loads_nothing_and_runs_nothing(run, tmp_path):
    figure("vrss-topic", to=tmp_path / "t.html", run=(run,))
    page = (tmp_path / "t.html").read_text()
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page
    assert set(re.findall(r'(?:src|href)="(.{11})', page)) == {"data:image/"}
    assert page.count("data:image/svg+xml;base64,") == 1
    assert all(re.findall(r'<img[^>]* alt="([^"]*)"', page))


def test_a_text_of_ones_own_has_no_own_pictures(run, tmp_path):
    path = tmp_path / "b.md"
    path.write_text(
        "# Cats & dogs\n\n## One\n\nThe boy had a dog.\n\n## The\n\nqwzx vvbn\n\n## Qwzx\n\nvvbn\n"
    )
    figure("vrss-topic", to=tmp_path / "t.html", run=(run,), text=(str(path),))
    page = (tmp_path / "t.html").read_text()
    assert "<h1>The latent topic of Cats &amp; dogs</h1>" in page
    found = STEP.findall(page)
    assert [entry[6].count("<img") for entry in found] == [5, 5, 5]
    assert "its own" not in page
    assert "Its own" not in page
    assert [("None of these words" in entry[1]) for entry in found] == [False, False, True]


def test_what_has_no_topic_or_is_not_for_validation_is_refused(run, tmp_path, train_tiny, drawings_run):
    out = tmp_path / "t.html"
    config = Run.open(run).config
    told = stories(config, "test")[0]
    with pytest.raises(ConfigError, match=r"no file .* unknown validation story"):
        figure("vrss-topic", to=out, run=(run,), text=(next(iter(told)),))
    with pytest.raises(ConfigError, match="shows one text, found 2"):
        figure("vrss-topic", to=out, run=(run,), text=("a", "b"))
    with pytest.raises(ConfigError, match="shows one run, found 2"):
        figure("vrss-topic", to=out, run=(run, run))
    with pytest.raises(ConfigError, match=r"name an \.html file"):
        figure("vrss-topic", to=tmp_path / "t.pdf", run=(run,))
    with pytest.raises(ConfigError, match="has no latent topic"):
        figure("vrss-topic", to=out, run=(drawings_run,))
    bare = train_tiny(tmp_path / "vae", "model.latents=false", config=CONFIG)
    with pytest.raises(ConfigError, match="has no latent topic"):
        figure("vrss-topic", to=out, run=(bare,))
    assert not out.exists()
