"""Ordinary texts over captioned photographs, with limner's own numbers: what must not be lost."""

import pytest
from boards import Records, chosen_board, picture, picture_id, shown, space, story_of

from limner.encoders.catalogue import text_encoder
from limner.match.illustrate import BoardOptions
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery

CAPTIONS = {
    "ball": "A brown dog playing with a tennis ball on a beach",
    "black": "A black dog runs along the beach",
    "waves": "A dog jumps over the waves at the sea shore",
    "puppy": "A white puppy digs a hole in the sand",
    "shake": "A wet dog shakes the water out of its fur",
    "sleep": "A dog sleeps on a blanket in the evening sun",
    "stick": "Two dogs pull at the same stick in shallow water",
    "drive": "A dog looks out of the window of a car",
    "crowd": "A crowd cheers at a football match in a stadium",
    "snow": "Hikers cross a snowy valley below a mountain",
    "climber": "A climber hangs from a steep red rock face",
    "market": "An old woman sells vegetables at a street market",
    "cake": "Children blow out the candles of a birthday cake",
    "train": "A train crosses a bridge over a river",
    "skate": "A boy jumps down a stair on his skateboard",
    "pool": "Dogs and kids play in a swimming pool",
    "guitar": "A man with a beard plays the guitar on a stage",
    "horse": "A girl in a helmet rides a horse over a fence",
    "wedding": "A bride and a groom dance under a tree",
    "fisher": "A fisherman mends his net beside a boat",
    "cyclist": "Cyclists race through a wet city street",
    "kite": "A boy flies a kite on a green hill",
    "library": "A student reads a thick book in a library",
    "surgeon": "Two surgeons bend over an operating table",
}
DAY = (
    "We put our dog into the car and drove off.",
    "At the sea he ran along the beach.",
    "A brown dog chased a yellow tennis ball.",
    "Our puppy dug a deep hole in the sand.",
    "Then two of them fought over one stick in the water.",
    "He shook himself and made us all wet.",
    "In the evening he fell asleep on the blanket.",
    "The football team in red scored twice, and the crowd went wild.",
)
RIGHT = ("drive", "black", "ball", "puppy", "stick", "shake", "sleep", "crowd")
TAX = (
    "The revised directive obliges member states to transpose the value added tax threshold for small"
    " enterprises into national law before the end of the fiscal year."
)


@pytest.fixture(scope="module")
def ask():
    """Texts → board over the captioned photographs, as limner asks a library by default."""
    pictures = [picture(name, caption=caption) for name, caption in CAPTIONS.items()]
    sentences = text_encoder()
    gallery = Gallery(
        [one.id for one in pictures],
        [one.group for one in pictures],
        {"captions": space(sentences.encode_text(list(CAPTIONS.values())))},
    )
    index, shelf = Index(gallery), Records(pictures)
    channel = Channel("captions", sentences, "captions", COSINE)

    def illustrated(texts, title="", **options):
        return chosen_board(story_of(texts, title), index, [channel], shelf, BoardOptions(**options))

    return illustrated


def test_a_day_at_the_beach_keeps_its_ball_and_its_football_crowd(ask):
    assert tuple(shown(ask(DAY))) == RIGHT


def test_fixing_a_step_changes_no_other_perfect_step(ask):
    assert shown(ask(DAY, pins={1: picture_id("waves")})) == [RIGHT[0], "waves", *RIGHT[2:]]


def test_a_paragraph_about_a_tax_stays_blank_and_says_why(ask):
    board = ask([*DAY[:4], TAX])
    assert shown(board) == [*RIGHT[:4], None]
    assert board.steps[4].blank == "nothing fits"
    assert board.steps[4].probability < board.threshold
    assert board.blanks() == {"nothing fits": 1}


@pytest.mark.slow
def test_who_is_cautious_sees_no_picture_of_a_tax(ask):
    board = ask([*DAY[:4], TAX], show="cautious")
    assert shown(board) == [*RIGHT[:4], None]


def test_sentences_with_nothing_in_common_are_read_as_if_alone(ask):
    texts = [
        "A train goes over a bridge.",
        "Kids blow out birthday candles.",
        "Somebody climbs a steep rock.",
        "A guitar player with a beard stands on the stage.",
    ]
    alone = [shown(ask([text]))[0] for text in texts]
    assert shown(ask(texts)) == alone == ["train", "cake", "climber", "guitar"]


def test_who_is_only_called_by_a_name_or_a_pronoun_is_found(ask):
    """Nothing but the cast says that these steps are about a dog."""
    texts = [
        "Rex the dog woke up and was hungry.",
        "Then Rex ran along the shore.",
        "He slept under a blanket.",
    ]
    assert shown(ask(texts, "Rex"))[1] in ("black", "ball", "waves", "puppy")
    assert shown(ask(texts, "Rex"))[2] == "sleep"


def test_a_step_of_signs_alone_stays_blank_and_changes_no_other(ask):
    board = ask((DAY[0], "🎉🎉 !!", DAY[2]), show="always")
    assert shown(board) == [RIGHT[0], None, RIGHT[2]]
    assert board.blanks() == {"no words": 1}
