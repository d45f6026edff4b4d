"""The parts that `limner_steps.py` adds to limner's own model, one at a time."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import adaptive_avg_pool2d, normalize

from limner.checksums import rows_checksum
from limner.encoders.base_blocks import CHANNELS, FIRST, MAPS, SIDE
from limner.encoders.base_file import BACKBONE, BACKBONE_SHA256, MINILM, USE, WIDTHS, BaseShape
from limner.encoders.base_network import BaseNet, Projection, published_backbone
from limner.encoders.vocabulary import Vocabulary
from limner.research.datasets.features import FeatureKey, Features, block_features
from limner.research.datasets.sets.clue import RELATIONS
from limner.research.losses.generative import gaussian_kl, sentence_losses
from limner.research.losses.graphs import contrastive_neighbours, neighbour_distance, straight_through
from limner.research.nn.graphs import GraphEncoder
from limner.research.nn.story import LatentWalk
from limner.research.nn.words import in_stories, read_both_ways
from limner.research.systems.gsda import rows_of_other_stories
from limner.research.systems.gsda.captioner import Captioner, CaptionerArchitecture
from limner.research.systems.gsda.graphs import batch_graphs, graph_words, sentence_label_vectors
from limner.research.systems.limner import Limner

HIDDEN = (MINILM + USE) // 2
LATENT = 128
GRID, REGION, SPOKEN = 3, 128, 12
"""Regions along a side of a picture, the width that words and regions are compared in, words of a text."""
GRAPH_MARGIN, GRAPH_WEIGHT = 0.2, 1.0
SPEAKER = CaptionerArchitecture(
    local=256, hidden=128, joined=256, seen=256, state=256, word_width=128, dropout=0.3
)
SAID, LONGEST = 10, 30
"""Times a word must be seen to be said, and words of a sentence that are generated."""
CAPTION_WEIGHT, ALONE = 0.3, 5
"""Of what the captioner says, and first epochs, in which texts without a story alone teach it."""


class Recurrent(nn.Module):
    """(S, 896) steps of stories → (S, 896), each read between its neighbours."""

    divergence = None

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(MINILM + USE, HIDDEN, batch_first=True, bidirectional=True)

    def forward(self, rows, steps):
        """Rows of all stories, and their numbers of steps."""
        return read_both_ways(self.gru, rows, steps)


class Attention(nn.Module):
    """(S, 896) steps of stories → (S, 896), by one layer of a transformer, which sees no order."""

    divergence = None

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(MINILM + USE, 8, 2 * HIDDEN, 0.1, "gelu", batch_first=True)

    def forward(self, rows, steps):
        """Rows of all stories, and their numbers of steps."""
        padded, real = in_stories("attention", rows, steps)
        return self.layer(padded, src_key_padding_mask=~real)[real]


class Walk(nn.Module):
    """(S, 896) steps of stories → (S, 896) of latents that are drawn one after the other, as in VRSS.

    `divergence` is the last call's, in nats per step and dimension (VRSS 2020, Eq. 4).
    """

    def __init__(self):
        super().__init__()
        self.walk = LatentWalk(MINILM + USE, hidden=HIDDEN, latent=LATENT)
        self.out = nn.Linear(2 * LATENT, MINILM + USE)
        self.divergence = None

    def forward(self, rows, steps):
        """Rows of all stories, and their numbers of steps."""
        walked = self.walk(*in_stories("walk", rows, steps))
        self.divergence = gaussian_kl(*walked.posterior, *walked.prior).mean() / LATENT
        return self.out(torch.cat([walked.earlier, walked.latents], dim=1))


class StepsAlone(Walk):
    """The control of `Walk`: the same layers, but every step begins a walk of its own."""

    def forward(self, rows, steps):
        """Rows of all stories, and their numbers of steps, which are not looked at."""
        return super().forward(rows, torch.ones(len(rows), dtype=torch.int64))


class Late(nn.Module):
    """Late interaction: the best region of a picture for each word of a text (ColBERT's max-similarity)."""

    def __init__(self, words, dropout):
        super().__init__()
        self.spoken = nn.Embedding(words, REGION)
        self.even = nn.LayerNorm(WIDTHS[-1], elementwise_affine=False)
        self.seen = Projection(WIDTHS[-1], REGION, dropout=dropout)
        self.scale = nn.Parameter(torch.tensor(0.1))

    def texts(self, bags, rarity):
        """Texts → (N, SPOKEN, REGION) of their rarest words, and (N, SPOKEN) weights with sum 1, or 0."""
        rarest = [sorted(bag, key=lambda word: -rarity[word])[:SPOKEN] for bag in bags]
        numbers = torch.tensor([own + [0] * (SPOKEN - len(own)) for own in rarest])
        real = torch.arange(SPOKEN) < torch.tensor([len(own) for own in rarest])[:, None]
        weights = rarity[numbers].square() * real
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-6)
        return normalize(self.spoken(numbers), dim=2), weights

    def pictures(self, rows):
        """(B, GRID² · F) regions → (B, GRID², REGION)."""
        regions = self.even(rows.view(len(rows), GRID * GRID, WIDTHS[-1]))
        return self.seen(regions.flatten(0, 1)).view(len(rows), GRID * GRID, REGION)

    def scores(self, words, weights, regions):
        """(N, SPOKEN, REGION), (N, SPOKEN) and (B, GRID², REGION) → (N, B)."""
        best = [
            (some.flatten(0, 1) @ regions.flatten(0, 1).t())
            .view(len(some), SPOKEN, len(regions), GRID * GRID)
            .amax(dim=3)
            for some in words.split(256)
        ]
        return self.scale * torch.einsum("nwb,nw->nb", torch.cat(best), weights)


class SceneGraphs(nn.Module):
    """GSDA's graph terms: the graphs of the pictures that a story's steps choose lie near each other."""

    def __init__(self, graphs, encoder):
        super().__init__()
        self.graphs = graphs
        labels = sentence_label_vectors(graph_words(graphs.values()), encoder)
        self.numbers, self.encoder = labels.numbers, GraphEncoder(torch.from_numpy(labels.matrix))

    def forward(self, scores, columns, steps, ids, temperature):
        """What the steps of all stories cost, one after the other.

        Args:
            scores: (S, B) of the steps with the pictures of the batch.
            columns: (S,) the pictures of the steps.
            steps: (stories,) of each, at least 2.
            ids: of the S pictures.
            temperature: of the choice.
        """
        vectors, empty = self.encoder(batch_graphs([self.graphs[name] for name in ids], self.numbers))
        chosen = straight_through(scores[:, columns], vectors, temperature)
        loss = neighbour_distance(chosen.values, steps, ~empty[chosen.best]).mean()
        if len(steps) > 1:
            others = rows_of_other_stories(steps)
            loss = loss + contrastive_neighbours(vectors, steps, others, GRAPH_MARGIN, ~empty).mean()
        return loss


class Teller(nn.Module):
    """GSDA's dual task with a small captioner: the pictures that a story's steps choose tell the steps."""

    def __init__(self, texts, width):
        super().__init__()
        spoken = Vocabulary.build(texts, min_count=SAID)
        self.captioner = Captioner(SPEAKER, spoken, image_width=width, max_length=LONGEST)
        self.told = self.captioner.numbers(texts)

    def forward(self, pictures, steps, rows):
        """Nats per token of the steps of all stories, one after the other.

        Args:
            pictures: (S, D) that tell them.
            steps: (stories,) of each.
            rows: (S,) which training texts the steps are.
        """
        words, lengths = self.told[0][rows], self.told[1][rows]
        out = self.captioner(pictures, steps, words[:, : int(lengths.max())], lengths)
        return sentence_losses(out.logits, out.targets, out.tokens).mean()


def steps_in_order(batch, alone):
    """A batch as stories: (S,) texts, a step each, (S,) their pictures, and (stories,) numbers of steps.

    A picture is one step, by one of its texts, drawn anew each time.

    Args:
        batch: pictures with all of their texts.
        alone: whether pictures without a story, or the only one of theirs, are stories of one step.
    """
    drawn = torch.rand(len(batch.owners)) + 2 * batch.owners
    first = torch.argsort(drawn)  # the texts of a picture lie together, in chance order
    first = first[torch.cat([torch.ones(1, dtype=torch.bool), batch.owners[first].diff() > 0])]
    ordered = np.lexsort((batch.texts[first].numpy(), batch.stories[batch.owners[first]].numpy()))
    texts = first[torch.from_numpy(ordered)]
    columns = batch.owners[texts]
    steps = torch.unique_consecutive(batch.stories[columns], return_counts=True)[1]
    if not alone:
        kept = torch.repeat_interleave(steps > 1, steps)
        texts, columns, steps = texts[kept], columns[kept], steps[steps > 1]
    return texts, columns, steps


PARTS = {"recurrent": Recurrent, "attention": Attention, "walk": Walk, "walk-alone": StepsAlone}


class StepModel(Limner):
    """limner with what a step adds."""

    step = "plain"
    relations = RELATIONS

    def __init__(self, architecture, parts):
        super().__init__(architecture, parts)
        self.story = PARTS.get(self.step, lambda: None)()
        self.relation_head = None
        if self.step in ("relations", "refined"):
            self.relation_head = nn.Linear(architecture.width, len(self.relations))
        self.late = None
        if self.step == "late":
            self.beside = None  # what stands beside the backbone's row are regions
            self.late = Late(len(parts.vocabulary), architecture.dropout)

    @property
    def dim(self):
        """D, and what late interaction compares."""
        return super().dim + (0 if self.late is None else SPOKEN * (REGION + 1))

    def together(self, stories):
        """As of limner, with what reads the story."""
        texts = [text for story in stories for text in story]
        bags = self.bags(texts)
        if self.story is None:
            made = super().together(stories)
            if self.late is None:
                return made
            words, weights = self.late.texts(bags, self.rarity)
            return torch.cat([made, words.flatten(1), weights], dim=1)
        english, foreign = (
            torch.from_numpy(encoder.encode_text(texts)) for encoder in (self.sentences, self.multilingual)
        )
        steps = torch.tensor([len(story) for story in stories])
        read = self.story(torch.cat([english, foreign], dim=1), steps)
        # a text alone has no story
        read = read * (steps > 1)[torch.repeat_interleave(steps)][:, None]
        return self.read(english, foreign, read, bags)

    def relation_table(self, texts, images):
        """See `limner.research.systems.base.Model`; the head reads entry by entry products."""
        weight, bias = (part.detach().numpy() for part in self.relation_head.parameters())
        asked = np.einsum("nd,cd->ncd", texts * len(weight[0]) ** 0.5, weight)
        return np.einsum("ncd,md->nmc", asked, images) + bias

    def regions(self, rows):
        """Stored rows → regions."""
        return self.late.pictures(rows[:, self.row :])

    def pictures(self, pictures):
        """As of limner, with the regions."""
        made = super().pictures(pictures)
        if self.late is None:
            return made
        both = torch.cat([made, self.regions(pictures).flatten(1)], dim=1)
        return nn.functional.pad(both, (0, self.dim - both.shape[1]))

    def products(self, texts, images):
        """As of limner, with late interaction."""
        if self.late is None:
            return super().products(texts, images)
        width = self.architecture.width
        words, weights = texts[:, width:].split([SPOKEN * REGION, SPOKEN], dim=1)
        regions = images[:, width : width + GRID * GRID * REGION].reshape(len(images), GRID * GRID, REGION)
        late = self.late.scores(words.reshape(len(texts), SPOKEN, REGION), weights, regions)
        return texts[:, :width] @ images[:, :width].t() + late

    def score(self, texts, images):
        """As of limner, with late interaction."""
        if self.late is None:
            return super().score(texts, images)
        with torch.no_grad():
            return self.products(torch.from_numpy(texts), torch.from_numpy(images)).numpy()


def regions_of(data, root):
    """(N, GRID² · 1280) means of the last map over GRID × GRID parts of every picture, as published."""
    stored = block_features(data, root)
    with torch.random.fork_rng():
        net = BaseNet(BaseShape(), published_backbone()).eval()
    made = []
    head = net.backbone._bn1.register_forward_hook(
        lambda layer, given, maps: made.append(
            adaptive_avg_pool2d(net.backbone._swish(maps.float()), GRID).flatten(2).transpose(1, 2).flatten(1)
        )
    )
    with torch.inference_mode():
        for places in np.array_split(np.arange(len(stored.ids)), max(1, len(stored.ids) // 128)):
            rows = torch.from_numpy(stored.take(places)[:, :MAPS])
            maps = rows.view(-1, SIDE, SIDE, CHANNELS).permute(0, 3, 1, 2)
            net.after(FIRST, maps.contiguous(memory_format=torch.channels_last), maps.new_zeros(len(maps), 0))
    head.remove()
    key = FeatureKey(
        data=data.name,
        backbone=f"{BACKBONE}-regions",
        weights_sha256=BACKBONE_SHA256,
        transform=f"{GRID} × {GRID} regions",
    )
    half = torch.cat(made).numpy().astype(np.float16)
    return Features(key, stored.ids, half, np.array([rows_checksum(row) for row in half], np.uint64))
