"""One idea at a time on top of limner's own model over five sets, judged by validation alone.

Makes: docs/results/limner-appendix.md (ideas rejected on validation)

Each step is trained as `configs/limner.toml` says, with the backbone as published and for fewer epochs, with
one thing added. Prints the mean reciprocal rank over the validation texts of all sets, and of each set, at
the best epoch; means over the seeds, and differences from `plain`, or --against, with 95 % intervals by
bootstrap over stories, or pictures. No test row is read without --part test, which is for a step that
validation keeps. With --stories each of some sets of stories, as their own split divides them, is trained on
by itself in place of the five; the first column is the mean over these sets.

    python benchmarks/limner_steps.py --features features --to steps --seeds 0 1 2
    python benchmarks/limner_steps.py --features features --to steps --steps plain discrepancy
    python benchmarks/limner_steps.py --features features --to steps --stories worlds/0 worlds/1
    python benchmarks/limner_steps.py --features features --to steps --steps sets together --against together

Steps: plain, nothing added; discrepancy, diversity, combined: pairs weighed by their neighbourhoods, heavier
where these are less alike, or with -high more; hardest: the hinge of the hardest wrong answer as well;
relations: a head that tells which coherence relations a text and a picture have, in drawn worlds the true
thirteen, else those that a classifier of the Clue texts gives a text; refined: the same, with scores that
these refine as in CMCM, as is best for the other half of the validation stories; recurrent, attention, walk:
a story's steps read by a GRU both ways, by a layer of a transformer, or as latents that are drawn one after
the other, in place of their mean; walk-alone: the control of walk, whose latents know no other step;
together: pictures of a story come into a batch together, the control of sets, graphs and dual, which need
that; sets: the texts of a story against the pictures of each, by assignment; distil: a picture's other texts
teach it which texts are like its own; late: the rarest words of a text against nine regions of a picture,
each word by its best region, beside the whole vectors; graphs: the scene graphs of the pictures that the
steps of a story choose lie near each other (--graphs names the files that `limner scenes` wrote, of all sets
of stories; drawn worlds bring what they show); dual: a small captioner, which learns from captions and
articles first, tells the steps from the pictures that they choose.
"""

import argparse
import json
import sys
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from embeddings import data_folder
from scipy.optimize import linear_sum_assignment
from scipy.stats import sem
from scipy.stats import t as student
from step_models import (
    ALONE,
    CAPTION_WEIGHT,
    GRAPH_WEIGHT,
    SceneGraphs,
    StepModel,
    Teller,
    regions_of,
    steps_in_order,
)
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, kl_div

from limner.encoders.base_file import BLOCKS, MINILM, USE
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.encoders.text_cache import StoredTexts
from limner.research.datasets.mixture import set_of
from limner.research.datasets.neighbours import build_graph
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.clue import RELATIONS, read_clue
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.refinement import choose, pair_logits, refine
from limner.research.evaluation.uncertainty import difference
from limner.research.losses import weighting
from limner.research.losses.checks import product
from limner.research.losses.contrastive import info_nce
from limner.research.losses.graphs import straight_through
from limner.research.runs.run import vectors
from limner.research.runs.train import maximise, read_config, validation
from limner.research.scenes.beside import JoinedFeatures
from limner.research.scenes.graphs import read_graphs
from limner.research.systems.base import evaluating
from limner.research.systems.limner import LimnerSystem, LimnerTask
from limner.research.training.checkpoint import load
from limner.research.training.corpus import corpus_of, open_corpus, rows_of
from limner.research.training.loop import BEST, Loop

CONFIGS = Path(__file__).parents[1] / "configs"
FIVE, ONE = CONFIGS / "limner.toml", CONFIGS / "limner" / "limner.toml"
ON_STORIES = ("data.split=released", "model.words=true", "model.text_dropout=0.3")
"""What a run on one set of stories has in common with those on five sets."""
FROZEN = (f"model.changed_from={BLOCKS + 1}", "loop.restarts=[]", "data.beside=[]")
"""Settings under which the backbone stays as published, and looks read it alone."""
MEASURES = {"discrepancy": (0.0, 1.0), "diversity": (1.0, 0.0), "combined": (1.0, 4.0)}
"""Step → β of diversity and γ of discrepancy; those of COCO in T&K 2022 for both."""
STEPS = (
    "plain",
    *MEASURES,
    *(f"{name}-high" for name in MEASURES),
    "hardest",
    "relations",
    "refined",
    "recurrent",
    "attention",
    "walk",
    "walk-alone",
    "together",
    "sets",
    "distil",
    "late",
    "graphs",
    "dual",
)
NEIGHBOURS = 200
MARGIN, HARDEST = 0.2, 1.0
RELATIONS_WEIGHT = 0.3
SETS_WEIGHT, SETS_TEMPERATURE = 0.3, 0.045
DISTIL_WEIGHT, DISTIL_TEMPERATURE = 0.5, 0.05
WHOLE_STORIES = 64
"""Pictures of one story that come into a batch together where stories are compared as sets."""


class StepTask(LimnerTask):
    """limner's losses, with what a step adds."""

    graphs = relations = None

    def __init__(self, model, corpus, config, parts):
        super().__init__(model, corpus, config, parts)
        self.step_name, high, _ = model.step.partition("-high")
        self.sign = 1 if high else -1
        self.alpha = None
        self.story_of_row, self.rows_of_stories = stories(corpus)
        if model.relation_head is not None:
            if self.relations:
                told = [self.relations[pair.image_id] for pair in corpus.train.pairs]
                self.told = torch.tensor([[float(one[name]) for name in model.relations] for one in told])
            else:
                self.told = pseudo_labels(self._english)
        self.epoch = 0
        if self.step_name == "graphs":
            model.scenes = SceneGraphs(self.graphs, model.sentences)
        if self.step_name == "dual":
            model.teller = Teller(corpus.train.texts, model.architecture.width)

    @cached_property
    def neighbours(self):
        """Of the training texts, by MiniLM."""
        rows = self._corpus.train
        table = build_graph(
            self._english.numpy(), size=NEIGHBOURS, text_ids=rows.text_ids, image_ids=rows.image_ids
        )
        return weighting.neighbour_matrix(torch.from_numpy(table))

    def batches(self, epoch):
        """As of limner; scores are made once an epoch."""
        self.epoch = epoch
        if self.step_name in MEASURES and epoch > 0:  # as in the paper, the first epoch weighs all alike
            self.alpha = self.scores()
        return super().batches(epoch)

    def scores(self):
        """(N,) what weights come from: the mean of both modalities, each measure standardised."""
        rows = self._corpus.train
        with evaluating(self.model):
            made = self.model.read(self._english, self._foreign, self._context, self._bags)
            pictures = torch.cat(
                [
                    self.model.pictures(torch.from_numpy(self._corpus.pictures.take(some)))
                    for some in np.array_split(rows.places, 20)
                ]
            )
        total = torch.zeros(len(made))
        for diverse, weight in zip((True, False), MEASURES[self.step_name], strict=True):
            for side in (made, pictures) if weight else ():
                measure = weighting.diversity if diverse else weighting.discrepancy
                total += weight * weighting.z_scores(measure(self.neighbours, side)).float() / 2
        return self.sign * weighting.z_scores(total)

    def readings(self, batch):
        """As of limner, with what reads the story."""
        if self.model.story is None:
            return super().readings(batch)
        # the stories of the batch's texts, whole, as they are read later
        some = batch.own_texts
        found = torch.zeros(len(some), MINILM + USE)
        names = self.story_of_row[some.numpy()]
        members = [self.rows_of_stories[name] for name in np.unique(names[names >= 0]).tolist()]
        if members:
            rows = torch.from_numpy(np.concatenate(members))
            steps = torch.tensor([len(own) for own in members])
            both = torch.cat([self._english, self._foreign], dim=1)[rows]
            made = self.model.story(both, steps)
            place = torch.full((len(self._bags),), -1)
            place[rows] = torch.arange(len(rows))
            known = place[some] >= 0
            found[known] = made[place[some[known]]]
        alone = self.sides(batch)
        joined = self.model.read(
            self._english[some], self._foreign[some], found, [self._bags[row] for row in some.tolist()]
        )
        return alone | {"joined": (joined, 1.0)}

    def contrast(self, name, texts, pictures, batch):
        """As of limner, with what the step adds."""
        scores = product(texts, pictures.t())
        joined = name == "joined"
        if self.step_name == "late" and joined:
            words, weights = self.model.late.texts(
                [self._bags[row] for row in batch.texts.tolist()], self.model.rarity
            )
            late = self.model.late.scores(words, weights, self.model.regions(batch.rows))
            alone = torch.ones(len(texts))
            loss = weighed((scores + late) / self.config.temperature, batch.owners, batch.neg, alone)
        elif self.alpha is None:
            loss = super().contrast(name, texts, pictures, batch)
        else:
            alpha = len(texts) * torch.softmax(self.alpha[batch.texts], dim=0)
            loss = weighed(scores / self.config.temperature, batch.owners, batch.neg, alpha)
        if self.step_name == "hardest":
            true = scores.gather(1, batch.owners[:, None])[:, 0]
            worst = scores.masked_fill(~batch.neg, -torch.inf)
            by_text = (MARGIN - true + worst.max(dim=1).values).clamp(min=0)
            by_picture = (MARGIN - true + worst.max(dim=0).values[batch.owners]).clamp(min=0)
            loss = loss + HARDEST * (by_text + by_picture).mean()
        if self.model.relation_head is not None and joined:
            guessed = self.model.relation_head(texts * pictures[batch.owners] * texts.shape[1] ** 0.5)
            loss = loss + RELATIONS_WEIGHT * binary_cross_entropy_with_logits(guessed, self.told[batch.texts])
        if joined and self.model.story is not None and self.model.story.divergence is not None:
            loss, self.model.story.divergence = loss + self.model.story.divergence, None
        if self.step_name == "sets" and joined:
            loss = loss + SETS_WEIGHT * of_sets(scores, batch)
        if self.step_name == "distil" and joined:
            loss = loss + DISTIL_WEIGHT * distilled(
                self._english[batch.texts], scores / self.config.temperature, batch.owners
            )
        if self.step_name in ("graphs", "dual") and joined:
            loss = loss + self.of_story(scores, pictures, batch)
        return loss

    def of_story(self, scores, pictures, batch):
        """What GSDA adds: graph terms, or the dual task."""
        dual, temperature = self.step_name == "dual", self.config.temperature
        texts, columns, steps = steps_in_order(batch, alone=dual)
        if not len(steps):
            return scores.new_zeros(())
        rows = batch.texts[texts]
        if not dual:
            ids = [self._corpus.train.pairs[row].image_id for row in rows.tolist()]
            return GRAPH_WEIGHT * self.model.scenes(scores[texts], columns, steps, ids, temperature)
        if self.epoch >= ALONE:
            seen = straight_through(scores[texts], pictures, temperature).values
        elif bool((steps > 1).any()):
            return scores.new_zeros(())
        else:
            seen = pictures.detach()[columns]
        return CAPTION_WEIGHT * self.model.teller(seen, steps, rows)


def weighed(logits, owners, neg, alpha):
    """`limner.research.losses.contrastive.info_nce_of_many`, each text's costs times its alpha."""
    own = torch.zeros_like(neg).scatter_(1, owners[:, None], value=True)
    texts = cross_entropy(logits.masked_fill(~(neg | own), -torch.inf), owners, reduction="none")
    true = logits.gather(1, owners[:, None])[:, 0]
    wrong = logits.masked_fill(~neg, -torch.inf).logsumexp(dim=0)[owners]
    costs = torch.logaddexp(wrong, true) - true
    counts = own.sum(dim=0).clamp(min=1)[owners]
    return 0.5 * ((alpha * texts).mean() + (alpha * costs / counts).sum() / logits.shape[1])


def of_sets(scores, batch):
    """Softmax between stories: the texts of each against the pictures of each, by the best assignment."""
    names, counts = torch.unique(batch.stories, return_counts=True)
    names = names[counts > 1]
    if len(names) < 2:
        return scores.new_zeros(())
    members = [torch.nonzero(batch.stories == name)[:, 0] for name in names]
    said = [torch.nonzero(torch.isin(batch.owners, own))[:, 0] for own in members]
    table = []
    for texts in said:
        row = []
        for pictures in members:
            block = scores[texts][:, pictures]
            chosen = linear_sum_assignment(block.detach().numpy(), maximize=True)
            row.append(block[chosen].mean())
        table.append(torch.stack(row))
    return info_nce(torch.stack(table) / SETS_TEMPERATURE, ~torch.eye(len(names), dtype=torch.bool))


def distilled(english, logits, owners):
    """How far each text's softmax over pictures is from that over the pictures' other texts, in nats.

    Of texts whose picture has another text.
    """
    alike = (english @ english.t()).fill_diagonal_(-torch.inf)
    columns = owners.expand(len(owners), -1)
    best = torch.full_like(logits, -torch.inf).scatter_reduce(1, columns, alike, "amax")
    taught = torch.isfinite(best.gather(1, owners[:, None])[:, 0])
    if not taught.any():
        return logits.new_zeros(())
    teacher = torch.softmax(best[taught] / DISTIL_TEMPERATURE, dim=1)
    return kl_div(logits[taught].log_softmax(dim=1), teacher, reduction="batchmean")


def stories(corpus):
    """Story of each training row, −1 without one, and the rows of each story."""
    members = {}
    for row, pair in enumerate(corpus.train.pairs):
        if pair.seq:
            members.setdefault(pair.seq, []).append(row)
    whole = [np.array(rows) for rows in members.values() if len(rows) > 1]
    found = np.full(len(corpus.train.pairs), -1)
    for number, rows in enumerate(whole):
        found[rows] = number
    return found, whole


def pseudo_labels(english):
    """(N, 6) chances of each relation, by a classifier of the Clue texts that reads MiniLM's vectors."""
    from sklearn.linear_model import LogisticRegression

    pairs = read_clue(Source(data_folder() / "clue", pictures=None)).pairs
    told = sentence_encoder().encode_text([pair.text for pair in pairs])
    found = []
    for name in RELATIONS:
        labels = [pair.labels[name] for pair in pairs]
        found.append(LogisticRegression(max_iter=2000).fit(told, labels).predict_proba(english.numpy())[:, 1])
    return torch.from_numpy(np.stack(found, axis=1)).float()


class StepSystem(LimnerSystem):
    """limner with what a step adds."""

    def __init__(self, step, graphs, relations):
        names = {"relations": tuple(next(iter(relations.values())))} if relations else {}
        self.model = type("StepModelOf", (StepModel,), {"step": step} | names)
        self.training = type("StepTaskOf", (StepTask,), {"graphs": graphs, "relations": relations})


def reciprocal(model, parts, pictures, can, options):
    """Set → (1 / rank of each text of a part, its story or picture)."""
    found = {}
    for name, own in parts.items():
        rows = rows_of(own.split(options.part), pictures, ())
        texts, images, columns = vectors(model, pictures, rows, can)
        scores = model.score(texts, images)
        groups = [pair.seq or pair.image_id for pair in rows.pairs]
        if model.step == "refined":
            scores = refined(scores, pair_logits(model, texts, images), columns, groups)
        values = Metric.parse("MRR").values(rank(scores, columns[:, None].tolist()))
        known = {pair.image_id for pair in own.split("train")} if options.unseen else ()
        kept = [row for row, pair in enumerate(rows.pairs) if pair.image_id not in known]
        found[name] = values[kept], [groups[row] for row in kept]
    return found


def refined(scores, logits, columns, groups):
    """Scores that relations refine, by what is best for the other half of the stories."""
    half = np.unique(groups, return_inverse=True)[1] % 2
    made, pictures = np.array(scores), np.arange(scores.shape[1])
    for own in (half == 0, half == 1):
        (here,), (there,) = np.nonzero(own), np.nonzero(~own)
        chosen = choose(
            lambda some, _, there=there: scores[there][some],
            logits.take(there, pictures),
            lambda some, which, there=there: rank(some, columns[there][which][:, None].tolist()).ranks(),
        )
        made[here] = refine(scores[here], logits.take(here, pictures), chosen)
    return made


def settings(folder, options, *more):
    """Of runs on a set of stories, or, for None, on the five sets."""
    kept = f"data.features={json.dumps(str(options.features))}"
    if folder is None:
        return read_config(FIVE, [*FROZEN, kept, *more], "")
    where = f"data.annotations={json.dumps(str(folder))}"
    return read_config(ONE, [*FROZEN, *ON_STORIES, kept, where, *more], "stories")


def graphs_of(folder, data, files):
    """Picture → scene graph: what a drawn world shows, else what files say."""
    drawn = None if folder is None else folder / "scene_graphs.jsonl"
    if drawn is not None and drawn.exists():
        shown = read_graphs(drawn)
        return {pair.image_id: shown[Path(pair.image).stem] for pair in data.pairs}
    return {name: graph for file in files for name, graph in read_graphs(file).items()}


def relations_of(folder, data):
    """Picture → relation → whether it holds between the page's text and it, of a drawn world."""
    told = None if folder is None else folder / "metadata.jsonl"
    if told is None or not told.exists():
        return {}
    lines = map(json.loads, told.read_text(encoding="utf-8").splitlines())
    known = {Path(line["file_name"]).stem: line["relations"] for line in lines if line.get("relations")}
    return {pair.image_id: known[Path(pair.image).stem] for pair in data.pairs} if known else {}


def trained(step, seed, options, folder, stock):
    """Best figure of validation, and per set as `reciprocal` has them."""
    everything, pictures, (graphs, relations), (english, foreign) = stock
    data = replace(everything, pairs=tuple(pair for pair in everything.pairs if pair.split != "test"))
    more = [f"loop.seed={seed}", f"loop.epochs={options.epochs}"]
    if step in ("together", "sets", "graphs", "dual"):
        more.append(f"together={WHOLE_STORIES}")
    config = settings(folder, options, *more)
    system = StepSystem(step, graphs, relations)
    corpus = corpus_of(data, pictures, (), None, config.data.validation_sample)
    prepared = system.prepare(config, corpus, sentences=english, multilingual=foreign)
    can = system.capabilities(config)
    named = "relations" if step == "refined" else step  # the same run
    run = options.to / ("" if folder is None else folder.name) / f"{named}-{seed}"
    loop = Loop(
        prepared.task,
        config.loop,
        run,
        validate=validation(corpus, can),
        maximise=maximise(config.loop.metric),
        report=lambda event: None,
        saved_with=prepared.saved_with,
    )
    done = loop.fit()
    prepared.task.model.load_state_dict(load(run / BEST)[0], strict=False)
    names = sorted({pair.group.partition(":")[0] for pair in data.pairs}) if folder is None else ()
    parts = {name: set_of(everything, name) for name in names} or {data.name: everything}
    by_set = reciprocal(prepared.task.model, parts, pictures, can, options)
    if step != "refined":
        return done.best, by_set
    judged = {"": replace(everything, pairs=corpus.val.pairs)}  # the rows that other steps' best is of
    (whole,) = reciprocal(prepared.task.model, judged, pictures, can, options).values()
    return float(whole[0].mean()), by_set


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--against", choices=STEPS, default="plain", help="step that others are held against")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--features", type=Path, required=True, help="folder of stored features")
    parser.add_argument("--to", type=Path, required=True, help="folder of the runs and their figures")
    parser.add_argument("--stories", nargs="+", type=Path, help="folders of stories, each by itself")
    parser.add_argument("--graphs", nargs="+", type=Path, default=(), help="scene graphs, for graphs")
    parser.add_argument("--part", choices=("val", "test"), default="val", help="that by-set figures are of")
    parser.add_argument("--unseen", action="store_true", help="leave out pictures that training shows")
    options = parser.parse_args()
    if options.against != "plain" and options.against not in options.steps:
        parser.error(f"--against: {options.against} is not among --steps; add it there")
    if options.part == "test" and "refined" in options.steps:
        parser.error("--part test: refined is chosen on the part that is measured; leave it out of --steps")
    named = [folder.name for folder in options.stories or ()]
    if len(set(named)) < len(named):
        parser.error(f"--stories: two folders have one name ({', '.join(named)}); runs are kept by name")
    encoders = [StoredTexts(sentence_encoder(*name), options.features) for name in ((), (MULTILINGUAL,))]
    found = {}
    for folder in options.stories or [None]:
        everything, pictures = open_corpus(settings(folder, options).data, layer="described", mirrored=True)
        graphs = graphs_of(folder, everything, options.graphs)
        relations = relations_of(folder, everything)
        if "graphs" in options.steps and not graphs:
            options.steps.remove("graphs")
            print("graphs: left out, since --graphs names no file of scene graphs", file=sys.stderr)
        for step in options.steps:
            seen = pictures
            if step == "late":
                seen = JoinedFeatures(pictures, [regions_of(everything, options.features)])
            for seed in options.seeds:
                best, by_set = trained(
                    step, seed, options, folder, (everything, seen, (graphs, relations), encoders)
                )
                before, sets = found.setdefault((step, seed), ([], {}))
                before.append(best)
                sets.update(by_set)
                print(f"{everything.name}, {step}, seed {seed}: {best:.4f}", file=sys.stderr, flush=True)
    lines = table(
        found, options.steps, options.seeds, against=options.against, apart=options.stories is not None
    )
    print("\n".join(lines))


def table(found, steps, seeds, *, against="plain", apart):
    """Markdown: mean figures of every step, and its differences from one of them.

    Args:
        found: (step, seed) → best figures of its runs, and per set as `reciprocal` has them.
        steps: rows.
        seeds: of which the mean is taken.
        against: that one.
        apart: whether each set has runs of its own; the mean over three or more of them has a t interval.
    """
    sets = sorted(next(iter(found.values()))[1])
    lines = [
        f"| | {'mean' if apart else 'mixture'} | {' | '.join(sets)} |",
        f"|---|{'---|' * (len(sets) + 1)}",
    ]
    compared = against in steps
    for step in steps:
        best = np.mean([found[step, seed][0] for seed in seeds], axis=0)
        cells = [f"{best.mean():.3f}"]
        if compared and step != against and len(best) > 2:
            gaps = best - np.mean([found[against, seed][0] for seed in seeds], axis=0)
            low, high = student.interval(0.95, len(gaps) - 1, gaps.mean(), sem(gaps))
            cells[0] += f" ({gaps.mean():+.3f}, {low:+.3f} … {high:+.3f})"
        for name in sets:
            values = np.concatenate([found[step, seed][1][name][0] for seed in seeds])
            cell = f"{values.mean():.3f}"
            if compared and step != against:
                before = np.concatenate([found[against, seed][1][name][0] for seed in seeds])
                groups = [group for seed in seeds for group in found[step, seed][1][name][1]]
                gap = difference(values, before, groups)
                cell += f" ({gap.value:+.3f}, {gap.low:+.3f} … {gap.high:+.3f})"
            cells.append(cell)
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
