"""Small hand-made galleries, encoders and pictures for the tests of search and storyboards."""

import hashlib
from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np

from limner.match.calibration import Calibration
from limner.match.illustrate import choose_pictures, score_board
from limner.records import Caption, Picture, Step, Story
from limner.store.search import COSINE, Channel
from limner.store.vectors import Gallery, Space


class TableEncoder:
    """Looks texts up in a table of vectors."""

    name = "table"
    fingerprint = "table-1"

    def __init__(self, table):
        self.table = {text: np.asarray(vector, dtype=np.float32) for text, vector in table.items()}
        self.dim = len(next(iter(self.table.values())))

    def encode_text(self, texts):
        return np.stack([self.table[text] for text in texts])


def unit(vectors):
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def space(vectors, present=None):
    matrix = unit(vectors)
    if present is not None:
        matrix[~np.asarray(present, dtype=bool)] = 0
    return Space(matrix)


def picture_id(name):
    return hashlib.sha256(name.encode()).hexdigest()


def picture(name, group=None, caption=None, labels=()):
    own = picture_id(name)
    return Picture(
        id=own,
        paths=(f"/pictures/{name}.jpg",),
        width_px=4,
        height_px=3,
        format="JPEG",
        size_bytes=10,
        phash="0" * 16,
        group=picture_id(group or name),
        captions=(Caption(text=caption, source="sidecar"),) if caption else (),
        labels=tuple(labels),
    )


class Records:
    """Pictures by id, as a library would hand them out; remembers what it was asked."""

    def __init__(self, pictures):
        self.pictures = {p.id: p for p in pictures}
        self.asked = []

    def __call__(self, ids):
        self.asked.append(list(ids))
        return [self.pictures[own] for own in ids]


class Shelf(Records):
    """Folders of photographs, one a minute: of each, which step it shows; None if it is unlike the others.

    How much nearer a photograph is to the words of its step than to others is `lead`.
    """

    STEPS, DIM = 10, 30
    WORDS = tuple(f"Step {number} comes now." for number in range(STEPS))
    TEXTS = (*WORDS, "🎉", "Lemon cake", "lemon CAKE!")
    channel = Channel(
        "base", TableEncoder(dict(zip(TEXTS, np.eye(len(TEXTS), DIM), strict=True))), "base", COSINE
    )

    def __init__(self, folders, *, lead=1.5, alike=(), seconds=60):
        rng = np.random.default_rng(0)
        self.names = list(folders)
        base, looks, made = [], [], []
        for folder, shows in folders.items():
            common = np.append(np.zeros(self.STEPS), rng.normal(size=self.DIM - self.STEPS) / 2)
            for number, step in enumerate(shows):
                own = rng.normal(size=(2, self.DIM)) * (0.15 if step is not None else 1.0)
                matter = 0.0 if step is None else common + lead * np.eye(self.DIM)[step]
                base.append(own[0] + matter)
                looks.append(own[1] + (0.0 if step is None else common))
                name = f"{folder.split('/')[-1]}-{chr(97 + number)}"
                where = {
                    "paths": (f"/p/{folder}/{name}.jpg",),
                    "taken": datetime(2024, 5, 1, 12) + timedelta(seconds=seconds * number),
                    "taken_from": "camera",
                }
                made.append(picture(name, "alike" if name in alike else None).model_copy(update=where))
        super().__init__(made)
        ids, groups = [one.id for one in made], [one.group for one in made]
        self.gallery = Gallery(ids, groups, {"base": space(base), "looks": space(looks)})

    def under(self, places):
        inside = tuple(f"{place.rstrip('/')}/" for place in places)
        return [one for one in self.pictures.values() if f"{one.path}/".startswith(inside)]

    def folders(self):
        """What `named_row` and `score_board` ask of a catalogue."""
        inside = [[one.id for one in self.under([f"/p/{name}"])] for name in self.names]
        return SimpleNamespace(
            under=self.under,
            pictures=self,
            in_folder=inside.__getitem__,
            folder_name=lambda number: self.names[number].split("/")[-1],
            folder_sizes=np.array(list(map(len, inside))),
            folders_of=lambda ids: np.array(
                [next(n for n, own in enumerate(inside) if one in own) for one in ids]
            ),
        )


def numbers(**changes):
    """A calibration made by hand: evidence and chances that are easy to follow."""
    own = {
        "typical": {},
        "temperature": {},
        "spread": 1.0,
        "prior": 2.0,
        "evidence": {
            "words": -1.0,
            "words_cosine": 6.0,
            "words_z": 1.0,
            "words_title": 0.5,
            "pixels": 1.0,
            "pixels_beside_words": 0.5,
        },
        "sharpness": 1.0,
        "none": 0.0,
        "doubt": 3.0,
        "agreement": {"own": 1.0, "captions": 0.5, "looks": 1.0, "looks_beside_words": 1.0},
        "chance": {"one": 1.0, "share": 1.0, "mass": 0.3},
        "thresholds": {"cautious": 0.5, "usual": 0.2},
        "row": {
            "of_text": {"one": 2.0, "gain": 1.0, "kept": 0.0, "typical": 0.0},
            "at_step": {"one": 0.0, "odds": 1.0},
        },
        "pin": {"weight": 1.0, "floor": 0.1, "looks": 4.0},
        "provenance": {},
    } | changes
    for form in ("evidence", "agreement", "chance"):
        own[form] = {"weights": own[form]}
    return Calibration.model_validate(own)


def story_of(texts, title=""):
    """A story of steps without headings."""
    return Story(id="story", title=title, steps=tuple(Step(text=text) for text in texts))


def shown(board):
    """Names of the pictures on a board, None for a blank."""
    return [None if step.picture is None else step.picture.path.split("/")[-1][:-4] for step in board.steps]


def two_worlds():
    """Six pictures: kite, beach and boat, each drawn by hand 0 and by hand 1.

    Word axes 0..2 name the thing, axes 0..1 of looks the hand; hand 0 fits the words a little better.
    """
    names = [f"{thing}-{hand}" for hand in (0, 1) for thing in ("kite", "beach", "boat")]
    pictures = [picture(name, caption=f"A {name.split('-')[0]} by hand") for name in names]
    words = np.tile(np.eye(3), (2, 1)) + np.repeat([[0.0], [0.15]], 3, axis=0)
    look = np.repeat(np.eye(2), 3, axis=0) + 0.05 * np.random.default_rng(0).normal(size=(6, 2))
    gallery = Gallery(
        ids=[p.id for p in pictures],
        groups=[p.group for p in pictures],
        spaces={"captions": space(words), "looks": space(look)},
    )
    texts = ["The kites are flying.", "We walk to the beach.", "A boat!"]
    encoder = TableEncoder(dict(zip(texts, np.eye(3), strict=True)))
    return story_of(texts), gallery, [Channel("captions", encoder, "captions", COSINE)], Records(pictures)


def random_board(rng, *, steps=5, pictures=20, dim=8, captioned=0.5, groups=None, fitting=0.7):
    """A story, a gallery of captions, pixels and looks, and the channels that ask it.

    Args:
        rng: draws everything.
        steps, pictures, dim: how many, and how wide.
        captioned: share of the pictures that have a caption; a tenth of all have no pixels.
        groups: near-duplicate groups; None for one per picture.
        fitting: share of the pictures that are near the text of some step.
    """
    texts = [f"Step {number} comes now." for number in range(steps)]
    asked = {name: unit(rng.normal(size=(steps, dim))) for name in ("captions", "base")}
    about = rng.integers(steps, size=pictures)
    near = rng.random(pictures)[:, None] < fitting
    spaces = {}
    for name, share in (("captions", captioned), ("base", 0.9)):
        own = rng.normal(size=(pictures, dim)) / np.sqrt(dim) + near * asked[name][about]
        spaces[name] = space(own, rng.random(pictures) < share)
    spaces["looks"] = space(rng.normal(size=(pictures, dim)) + 1, rng.random(pictures) < 0.9)
    kind = np.arange(pictures) if groups is None else rng.integers(groups, size=pictures)
    records = [picture(f"p{number}", group=f"g{kind[number]}") for number in range(pictures)]
    channels = [
        Channel(name, TableEncoder(dict(zip(texts, own, strict=True))), name, COSINE)
        for name, own in asked.items()
    ]
    gallery = Gallery([one.id for one in records], [one.group for one in records], spaces)
    return story_of(texts), gallery, channels, Records(records)


def chosen_board(story, gallery, channels, pictures, options=None, *, library="", **more):
    """A board of pictures, scored and chosen at once."""
    return choose_pictures(score_board(story, gallery, channels, options, **more), pictures, library=library)
