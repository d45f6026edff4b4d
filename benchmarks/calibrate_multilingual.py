"""Fits the channel ``multilingual`` of calibration.json as `calibrate.py` fits ``captions``, and prints it.

Both sides are English captions of Flickr8k and made-up picture books in the multilingual encoder's space:
there are no translated captions to train on. The forty test photographs told in five more languages check it.

    python benchmarks/calibrate_multilingual.py --cache DIR
"""

import json

import numpy as np
from calibrate import choose_context, choose_form, fit_suitability, typical
from calibration_worlds import BOOKS, Books, World
from embeddings import CachedText, open_set, parser
from evidence import gain
from ordinary.translated import LANGUAGES, read_translated

from limner.arrays import scores
from limner.encoders.catalogue import MULTILINGUAL, text_encoder
from limner.evaluation.fitting import cost, ratios, standardised, text_pairs

CHANNEL = "multilingual"
PHOTOGRAPHS = 3000


def photographs(text: CachedText, split: str) -> dict[str, World]:
    """Caption 0 asks, caption 1 answers."""
    chosen = open_set("flickr8k").split(split)[:PHOTOGRAPHS]
    asked, told = (text.encode_text([one.captions[n] for one in chosen]) for n in (0, 1))
    match = np.eye(len(chosen), dtype=bool)
    return {"one caption": World({CHANNEL: scores(asked, told).astype(float)}, match, match)}


def renamed(world: World) -> World:
    """The made-up books' table of captions under the channel's name."""
    return World({CHANNEL: world.tables["captions"]}, world.match, world.kin)


def main() -> None:
    options = parser(__doc__.splitlines()[0]).parse_args()
    text = CachedText(text_encoder(MULTILINGUAL), options.cache)
    books = {split: Books.of(split) for split in BOOKS}
    context, notes = choose_context(
        lambda share: renamed(books["val"].world(text, {"captions": share})), CHANNEL
    )
    worlds = {
        split: photographs(text, split)
        | {"picture books": renamed(books[split].world(text, {"captions": context}))}
        for split in BOOKS
    }
    evidence, provenance = choose_form(worlds["train"], worlds["val"], CHANNEL)
    evidence = typical(evidence, [made.tables[CHANNEL] for made in worlds["train"].values()])
    curve, blanks = fit_suitability(worlds["train"], worlds["val"], [CHANNEL], {CHANNEL: evidence}, 1.0)
    found = {"channel": evidence.model_dump(), "context": context, "suitability": curve.model_dump()}
    found["provenance"] = {CHANNEL: provenance, f"context {CHANNEL}": notes, f"suitability {CHANNEL}": blanks}
    print(json.dumps(found, indent=2))
    chosen = open_set("flickr8k").split("test")
    place = {one.name: row for row, one in enumerate(chosen)}
    told = read_translated()
    match = np.zeros((len(told), len(chosen)), dtype=bool)
    match[range(len(told)), [place[one.file_name] for one in told]] = True
    gallery = text.encode_text([one.captions[1] for one in chosen])
    for code in LANGUAGES:
        table = scores(text.encode_text([one.told(code) for one in told]), gallery).astype(float)
        held = text_pairs(table, match, others=10**9)
        nats = gain(ratios(evidence, table, standardised(table)), match)
        print(f"check, {code}: gain {nats:.3f} nats, Cllr {cost(evidence, held):.3f}")


if __name__ == "__main__":
    main()
