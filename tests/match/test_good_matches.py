"""Ordinary texts over captioned photographs, with limner's own numbers: what must not be lost."""

import pytest
from boards import Records, chosen_board, picture, picture_id, shown, space, story_of

from limner.encoders.catalogue import text_encoder
from limner.match.illustrate import BoardOptions
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery

CAPTIONS = """ball: A brown dog playing with a tennis ball on a beach
black: A black dog runs along the beach
waves: A dog jumps over the waves at the sea shore
puppy: A white puppy digs a hole in the sand
shake: A wet dog shakes the water out of its fur
sleep: A dog sleeps on a blanket in the evening sun
stick: Two dogs pull at the same stick in shallow water
drive: A dog looks out of the window of a car
crowd: A crowd cheers at a football match in a stadium
snow: Hikers cross a snowy valley below a mountain
climber: A climber hangs from a steep red rock face
cake: Children blow out the candles of a birthday cake
train: A train crosses a bridge over a river
pool: Dogs and kids play in a swimming pool
guitar: A man with a beard plays the guitar on a stage
kite: A boy flies a kite on a green hill
surgeon: Two surgeons bend over an operating table"""
DAY = {
    "We put our dog into the car and drove off.": "drive",
    "At the sea he ran along the beach.": "black",
    "A brown dog chased a yellow tennis ball.": "ball",
    "Our puppy dug a deep hole in the sand.": "puppy",
    "Then two of them fought over one stick in the water.": "stick",
    "He shook himself and made us all wet.": "shake",
    "In the evening he fell asleep on the blanket.": "sleep",
    "The football team in red scored twice, and the crowd went wild.": "crowd",
}
TAX = {
    "The revised directive obliges member states to transpose the value added tax threshold into law.": None
}
NOTHING_IN_COMMON = {
    "A train goes over a bridge.": "train",
    "Kids blow out birthday candles.": "cake",
    "Somebody climbs a steep rock.": "climber",
    "A guitar player with a beard stands on the stage.": "guitar",
}
REX = {  # nothing but the cast says that these steps are about a dog
    "Rex the dog woke up.": ...,
    "Then Rex ran along the shore.": "black ball waves puppy",
    "He slept under a blanket.": "sleep",
}
FOUR = dict(list(DAY.items())[:4])


@pytest.fixture(scope="module")
def ask():
    """Texts → board over the captioned photographs, as limner asks a library by default."""
    captions = dict(line.split(": ") for line in CAPTIONS.splitlines())
    records = [picture(name, caption=caption) for name, caption in captions.items()]
    sentences, ids = text_encoder(), [one.id for one in records]
    gallery = Gallery(ids, ids, {"captions": space(sentences.encode_text(list(captions.values())))})
    index, channel = Index(gallery), Channel("captions", sentences, "captions", COSINE)
    return lambda texts, **options: chosen_board(
        story_of(texts), index, [channel], Records(records), BoardOptions(**options)
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (DAY, {}),
        (DAY | {"At the sea he ran along the beach.": "waves"}, {"pins": {1: picture_id("waves")}}),
        (FOUR | TAX, {}),
        (FOUR | TAX, {"show": "cautious"}),
        (NOTHING_IN_COMMON, {}),
        *(({words: due}, {}) for words, due in NOTHING_IN_COMMON.items()),
        (REX, {}),
        (FOUR | {"🎉🎉 !!": None}, {"show": "always"}),
    ],
)
def test_each_step_shows_its_photograph(ask, text, options):
    board = ask(tuple(text), **options)
    for name, due, step in zip(shown(board), text.values(), board.steps, strict=True):
        assert due is ... or (name in due.split() if due else name is None)
        assert (step.blank or "") == ("" if due else "no words" if "🎉" in step.reason else step.blank)
