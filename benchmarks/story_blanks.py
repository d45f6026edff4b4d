"""Does a story tell which of its steps have no picture? The price of a blank, fitted with all other weights.

Makes: docs/results/limner-appendix.md (a price for blanks)

    python benchmarks/story_blanks.py --runs runs/five/limner-0 runs/five/limner-1 --set howto

From every story some pictures are taken away, each by the toss of a coin; the steps they belong to are to
stay blank. The weights of text, of two pictures for each other and of a blank are those under which the
storyboards of validation stories are most likely; of steps by themselves, with neighbours (chain) and with
one latent picture (anchor). Prints how well the share of storyboards in which a step is blank tells such
steps from others (area under the ROC curve), how often the likelier of both is right, and the likelihood of
the test storyboards, in nats a step. 95 % bootstrap intervals by story, all runs together.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from base_results import shown
from sklearn.metrics import roc_auc_score
from story_results import evidence_of, likely, nats_of, opened

from limner.research.evaluation.likelihood import ChannelWeights, Telling, fit, log_likelihood, posteriors
from limner.research.evaluation.uncertainty import bootstrap, group_numbers, interval, interval_of

ALONE, CHAIN, ANCHOR = "steps alone", "chain", "anchor"
START_BLANK = 8.0
RESAMPLES = 1000


def thinned(part, seed):
    """The stories of a part, each without some of its pictures, and the names of their steps' stories."""
    blank = part.scores.shape[1]
    told, names = [], []
    for number, rows in enumerate(part.stories):
        own = part.columns[rows]
        different = np.unique(own)
        gone = different[np.random.default_rng([seed, number]).random(len(different)) < 0.5]
        columns = np.where(np.isin(own, gone), blank, own)
        told.append(
            Telling(torch.from_numpy(part.scores[rows]), torch.from_numpy(columns), torch.from_numpy(gone))
        )
        names += [part.names[row] for row in rows]
    return told, names


def weights_of(held, walk):
    """Way → weights, fitted on validation."""
    told = [thinned(part, 0)[0] for part in held]
    seen = list(zip(told, [evidence_of(part, walk) for part in held], strict=True))
    bare = [(stories, evidence[:0]) for stories, evidence in seen]
    alone = fit("chain", bare, ChannelWeights(30.0, (), START_BLANK))
    start = ChannelWeights(alone.text, (0.1, 0.1), alone.blank)
    return {ALONE: alone, CHAIN: fit("chain", seen, start), ANCHOR: fit("anchor", seen, start)}


def judged(parts, way, weights, walk):
    """(N,) shares of a blank, which steps are to be blank, (N,) names of stories; and nats of each story."""
    shares, blank, names, nats = [], [], [], []
    form = "anchor" if way == ANCHOR else "chain"
    text, price = (torch.tensor(value, dtype=torch.float64) for value in (weights.text, weights.blank))
    for part in parts:
        evidence = evidence_of(part, walk)
        pair = nats_of(weights, evidence[: len(weights.pictures)])
        told, own = thinned(part, 1)
        names += own
        for one in told:
            shares.append(posteriors(form, one, text, pair, price)[:, -1].exp().numpy())
            blank.append((one.columns == part.scores.shape[1]).numpy())
            nats.append(float(log_likelihood(form, one, text, pair, price)))
    return np.concatenate(shares), np.concatenate(blank), names, nats


def area(shares, blank, names):
    """Under the ROC curve, with its interval."""
    owner, groups = group_numbers(names)

    def resampled(weights):
        found = []
        for counts in weights[:, owner]:
            both = counts[blank].sum() > 0 and counts[~blank].sum() > 0
            found.append(roc_auc_score(blank, shares, sample_weight=counts) if both else np.nan)
        return np.array(found)

    (drawn,) = bootstrap([resampled], groups, resamples=RESAMPLES)
    return interval_of(float(roc_auc_score(blank, shares)), drawn, groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="of the system limner")
    parser.add_argument("--set", default="", help="of a mixture that the runs were trained on")
    parser.add_argument("--weights", type=Path, help="folder of weights of further encoders")
    options = parser.parse_args()
    held, parts = (
        [opened(run, options.weights, part, of=options.set) for run in options.runs]
        for part in ("val", "test")
    )
    walk, _ = likely(held, ())
    print("| | area under the ROC curve, % | right, % | nats a step | fitted |\n|---|---|---|---|---|")
    for way, weights in weights_of(held, walk).items():
        shares, blank, names, nats = judged(parts, way, weights, walk)
        right = interval(((shares >= 0.5) == blank).astype(float), names)
        cells = (shown(area(shares, blank, names)), shown(right), f"{sum(nats) / len(shares):.3f}")
        print(f"| {way} | {' | '.join(cells)} | {weights} |", flush=True)


if __name__ == "__main__":
    main()
