"""Small pictures of every awkward kind, stories made of blocks, and storyboards of both."""

from collections.abc import Callable

import pytest
from exports import board_of, candidate, item, picture_of
from PIL import Image

from limner.records import Block, Board, Mark, Passage, Picture, PictureRef

ARABIC = "جاءت السلحفاة لزيارة أنانسي وقت العشاء."


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
    known = {
        "turned": {"caption": "A red roof", "credit": "Ana Lima", "licence": "CC BY 4.0"},
        "tall": {"credit": "B. Person"},
        "odd": {"caption": "An odd name"},
    }
    files = {"odd" if "#" in path.stem else path.stem: path for path in folder.iterdir()}
    return {name: picture_of(path, **known.get(name, {})) for name, path in files.items()}


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
    strong = Mark(start=4, end=7, kind="strong")
    rows = tuple(tuple(Passage(text=cell) for cell in row) for row in (("what", "grams"), ("butter", "100")))
    return board_of(
        Block(text=intro, marks=(Mark(start=3, end=14, kind="emphasis"), link)),
        Block(kind="heading", text="Ingredients", level=2, role="supplies"),
        item("250 g flour", role="supplies"),
        item("2 eggs", role="supplies"),
        Block(kind="table", text="what | grams", rows=rows, head=1, role="supplies"),
        Block(kind="heading", text="Method", level=2),
        [item("Mix all softly.", 1, marks=(strong,)), item("slowly", depth=2), pictures["odd"]],
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
        **{"title": "Travels", "author": "Ana & Co", "license": "CC BY"},
    )


@pytest.fixture(scope="session")
def make_board(pictures: dict[str, Picture]) -> Callable[..., Board]:
    """A function that makes a storyboard of a text a step, by default all with the same picture."""

    def build(texts: list[str], *, swap: Picture | None = None, **story: object) -> Board:
        picture = swap or pictures["turned"]
        return board_of(*([Block(text=text), picture] for text in texts), **{"title": "The roof", **story})

    return build


@pytest.fixture(scope="session")
def board(pictures: dict[str, Picture], reference: Callable[..., PictureRef]) -> Board:
    """The sample of a trained model: pictures decoded, pinned, given, none, wide and tall."""
    given = Block(kind="picture", pictures=(reference("odd", alt="Given words"),))
    made = board_of(
        [Block(text="Once there was a red roof."), Block(text="It leaked."), pictures["turned"]],
        [Block(kind="heading", text="A wall", level=2), Block(text="A pinned step."), pictures["cmyk"]],
        [Block(text="A given step."), given, pictures["odd"]],
        [Block(text="Nothing fits here.")],
        [Block(text="A wide plain."), pictures["wide"]],
        [Block(text="A tall tower."), pictures["tall"]],
        **{"title": "The red roof", "author": "Ana & Co", "license": "CC BY"},
    )
    shared = {
        "probability": 0.8,
        "runners_up": (candidate(pictures["odd"]), candidate(pictures["clear"])),
        "relations": {"temporal_after": 0.81, "visible": 0.55, "<b>Mood</b>": 0.6, "story": 0.2},
        "attention": (("roof", 0.5), ("red", 0.3), ("a", 0.2)),
    }
    changes: dict[int, dict[str, object]] = {
        1: {"origin": "pinned"},
        2: {"origin": "given"},
        3: {"reason": "No picture is likely enough.", "probability": 0.1, "relations": {}},
        4: {"relations": {"visible": 0.6}},
    }
    steps = [step.model_copy(update={**shared, **changes.get(step.position, {})}) for step in made.steps]
    stated = {"library": "my-library", "channels": ("captions", "model"), "threshold": 0.12}
    return made.model_copy(update={"steps": tuple(steps), **stated})


@pytest.fixture(scope="session")
def arabic_board(make_board: Callable[..., Board]) -> Board:
    return make_board([ARABIC, ARABIC], title="السلحفاة", direction="rtl", language="ar")
