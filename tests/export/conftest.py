"""Small pictures of every awkward kind, stories made of blocks, and storyboards of both."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from exports import board_of, candidate, item
from PIL import Image

from limner.records import Block, Board, Caption, Mark, Passage, Picture, PictureRef

ARABIC = "جاءت السلحفاة لزيارة أنانسي وقت العشاء."


def picture_of(path: Path, *, caption: str = "", credit: str = "", licence: str = "") -> Picture:
    with Image.open(path) as image:
        width, height = image.size
        kind = image.format or ""
        if image.getexif().get(0x0112, 1) >= 5:
            width, height = height, width
    identity = hashlib.sha256(path.read_bytes()).hexdigest()
    return Picture(
        id=identity,
        paths=(str(path),),
        width_px=width,
        height_px=height,
        format=kind,
        size_bytes=path.stat().st_size,
        phash="0" * 16,
        group=identity,
        captions=(Caption(text=caption, source="sidecar"),) if caption else (),
        credit=credit,
        license=licence,
    )


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Picture]:
    """Name → picture; "turned" is stored lying (EXIF 6), and upright its red half is above."""
    folder = tmp_path_factory.mktemp("collection")
    lying = Image.new("RGB", (300, 200), "blue")
    lying.paste("red", (0, 0, 150, 200))
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "SECRET-DESCRIPTION"
    lying.save(folder / "turned.jpg", quality=95, exif=exif, comment=b"SECRET-COMMENT")
    Image.new("RGB", (900, 60), "green").save(folder / "wide.png")
    Image.new("RGB", (40, 700), "orange").save(folder / "tall.png")
    Image.new("RGBA", (120, 90), (255, 0, 0, 0)).save(folder / "clear.png")
    Image.new("CMYK", (160, 120), (0, 255, 255, 0)).save(folder / "cmyk.jpg")
    Image.new("RGB", (200, 150), "purple").save(folder / "it's (a) [näive] %20 & #1.jpg")
    return {
        "turned": picture_of(
            folder / "turned.jpg", caption="A red roof", credit="Ana Lima", licence="CC BY 4.0"
        ),
        "wide": picture_of(folder / "wide.png"),
        "tall": picture_of(folder / "tall.png", credit="B. Person"),
        "clear": picture_of(folder / "clear.png"),
        "cmyk": picture_of(folder / "cmyk.jpg"),
        "odd": picture_of(folder / "it's (a) [näive] %20 & #1.jpg", caption="An odd name"),
    }


@pytest.fixture(scope="session")
def reference(pictures: dict[str, Picture]) -> Callable[..., PictureRef]:
    """A function that makes the reference of a text to one of the pictures, or to one that is not there."""

    def build(name: str, **more: object) -> PictureRef:
        if name not in pictures:
            return PictureRef(target=name, problem="is not there", **more)
        picture = pictures[name]
        return PictureRef(target=f"{name}.jpg", path=picture.path, sha256=picture.id, **more)

    return build


@pytest.fixture(scope="session")
def recipe(pictures: dict[str, Picture]) -> Board:
    """Introduction with marks, supplies, a table, three numbered steps, and a quoted note."""
    link = Mark(start=38, end=46, kind="link", target="https://example.org/book")
    intro = "My grandmother never wrote it down. See her book."
    rows = (("what", "grams"), ("butter", "100"))
    return board_of(
        Block(text=intro, marks=(Mark(start=3, end=14, kind="emphasis"), link)),
        Block(kind="heading", text="Ingredients", level=2, role="supplies"),
        item("250 g flour", role="supplies"),
        item("2 eggs", role="supplies"),
        Block(
            kind="table",
            text="what | grams",
            rows=tuple(tuple(Passage(text=cell) for cell in row) for row in rows),
            head=1,
            role="supplies",
        ),
        Block(kind="heading", text="Method", level=2),
        [
            item("Mix all softly.", 1, marks=(Mark(start=4, end=7, kind="strong"),)),
            item("slowly", depth=2),
            pictures["odd"],
        ],
        [item("Bake for an hour.", 2)],
        [item("Eat with cream.", 3), pictures["turned"]],
        Block(kind="heading", text="Notes", level=2),
        Block(text="Keep it cool.", quoted=True),
    )


@pytest.fixture(scope="session")
def travels(pictures: dict[str, Picture], reference: Callable[..., PictureRef]) -> Board:
    """Steps with pictures of their own: several after the words, some between them, one that is lost."""

    def shown(name: str, **more: object) -> Block:
        return Block(kind="picture", pictures=(reference(name, **more),))

    return board_of(
        Block(text="We left early."),
        shown("wide", caption="The plain at dawn", alt="A plain"),
        [
            Block(kind="heading", text="The market", level=2),
            Block(text="We spent the morning at the market."),
            shown("odd", caption="Cheese of the valley", alt="Cheese"),
            shown("cmyk", caption="Fish from the harbour", alt="Fish"),
            shown("tall", caption="Flowers from the south"),
        ],
        [
            Block(kind="heading", text="The train", level=2),
            Block(text="Then we took the train."),
            shown("clear", caption="Our train", alt="A train"),
            shown("gone.jpg", caption="A lost caption", alt="A lost picture"),
            Block(text="It was late."),
        ],
        [Block(text="At home we slept."), pictures["turned"]],
        title="Travels",
        author="Ana & Co",
        license="CC BY",
    )


MakeBoard = Callable[..., Board]


@pytest.fixture(scope="session")
def make_board(pictures: dict[str, Picture]) -> MakeBoard:
    """A function that makes a storyboard of a text a step, by default all with the same picture."""

    def build(texts: list[str], *, swap: Picture | None = None, **story: object) -> Board:
        picture = swap or pictures["turned"]
        return board_of(*([Block(text=text), picture] for text in texts), **{"title": "The roof", **story})

    return build


@pytest.fixture(scope="session")
def board(pictures: dict[str, Picture], reference: Callable[..., PictureRef]) -> Board:
    """The sample: a picture that was decoded, pinned, given, none, a wide and a tall one."""
    given = Block(kind="picture", pictures=(reference("odd", alt="Given words"),))
    made = board_of(
        [Block(text="Once there was a red roof."), Block(text="It leaked."), pictures["turned"]],
        [Block(kind="heading", text="A wall", level=2), Block(text="A pinned step."), pictures["cmyk"]],
        [Block(text="A given step."), given, pictures["odd"]],
        [Block(text="Nothing fits here.")],
        [Block(text="A wide plain."), pictures["wide"]],
        [Block(text="A tall tower."), pictures["tall"]],
        title="The red roof",
        author="Ana & Co",
        license="CC BY",
    )
    changes: dict[int, dict[str, object]] = {
        1: {"origin": "pinned"},
        2: {"origin": "given"},
        3: {"reason": "No picture is likely enough.", "probability": 0.1},
    }
    others = (candidate(pictures["odd"]), candidate(pictures["clear"]))
    steps = [
        step.model_copy(update={"probability": 0.8, "runners_up": others, **changes.get(step.position, {})})
        for step in made.steps
    ]
    stated = {"library": "my-library", "channels": ("captions", "labels"), "threshold": 0.12}
    return made.model_copy(update={"steps": tuple(steps), **stated})


@pytest.fixture(scope="session")
def arabic_board(make_board: MakeBoard) -> Board:
    return make_board([ARABIC, ARABIC], title="السلحفاة", direction="rtl", language="ar")


@pytest.fixture(scope="session")
def model_board(board: Board) -> Board:
    """The sample as a trained model leaves it: relations where there is a picture, attention everywhere."""
    relations = {"temporal_after": 0.81, "visible": 0.55, "<b>Mood</b>": 0.6, "story": 0.2}
    steps = []
    for step in board.steps:
        words = board.story.steps[step.position].text.replace(".", " .").split()
        total = len(words) * (len(words) + 1) / 2
        attention = tuple((word, (len(words) - place) / total) for place, word in enumerate(words))
        steps.append(
            step.model_copy(update={"relations": relations if step.chosen else {}, "attention": attention})
        )
    return board.model_copy(update={"steps": tuple(steps), "channels": ("model",)})
