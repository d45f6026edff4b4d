# ruff: noqa: E501
"""Fifty pictures that hold words, drawn from a seed, and how often a text finds the right one by them.

Screenshots, slides, signs, labels and recipe cards, among photographs; every file is named by a number, so
that nothing but its pixels tells what it says. Each is asked for by a sentence that does not quote it. With
the extra `ocr` the library is filled twice, with and without what the pictures say; the time of both is
told. Photographs come from LIMNER_DATA/data/flickr8k, where it is there.

Makes: docs/results/ordinary.md (words that pictures show).

    python benchmarks/words_in_pictures.py
"""

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from embeddings import data_folder
from PIL import Image, ImageDraw, ImageFont

from limner.library import Library
from limner.progress import Progress

SEED = 38
WIDE, TALL, CARD = (1280, 800), (800, 1100), (1000, 700)
KINDS = {
    "screenshot": (
        ("Printer settings|Paper size: A4|Print on both sides|Ink level: low", "Choose the paper that the printer should use."),
        ("Sign in|E-mail address|Password|Forgot your password?", "Log on with your account."),
        ("Network and Internet|Wi-Fi: connected|VPN: off|Aeroplane mode", "Check that the computer is online."),
        ("Shopping basket|2 items|Subtotal 48.90|Go to checkout", "Pay for what you have picked."),
        ("Battery|Charge remaining 18 %|Low power mode|Screen time", "See how long the phone will still run."),
        ("Delete account?|This cannot be undone|Cancel|Delete", "Confirm that your profile is to be removed."),
        ("Calendar|Dentist, Monday 9:30|Repeat: never|Remind me 1 hour before", "Enter the appointment at the dentist."),
        ("Software update|Version 14.2 is available|Install now|Later tonight", "Bring the system up to date."),
        ("Camera|Flash: automatic|Grid lines|Save location", "Switch the flash on or off."),
        ("Export image|Format: PNG|Quality 90|Include metadata", "Save the drawing as a file."),
    ),
    "slide": (
        ("Photosynthesis|Light, water and carbon dioxide|Sugar and oxygen|Chlorophyll", "Plants make food from sunshine."),
        ("Quarterly revenue|Sales grew by 12 %|Costs fell|Outlook", "The company earned more than a year ago."),
        ("The water cycle|Evaporation|Condensation|Rain and rivers", "Clouds form and it rains again."),
        ("Fire safety|Know the exits|Do not use lifts|Meet at the car park", "What to do when the building burns."),
        ("The French Revolution|Bastille, 1789|The Terror|Napoleon", "Paris rose against its king."),
        ("Healthy sleep|Eight hours|No screens at night|A dark room", "How to rest well."),
        ("Volcanoes|Magma and lava|Eruptions|Pompeii", "Mountains that spit molten rock."),
        ("Project timeline|Design in March|Testing in June|Launch in autumn", "When the work will be finished."),
        ("Bees and pollination|Nectar|The hive|Why bees decline", "Insects carry pollen between flowers."),
        ("The solar system|Eight planets|Asteroid belt|Moons of Jupiter", "Worlds that circle the sun."),
    ),
    "sign": (
        ("CAUTION|WET FLOOR", "Take care not to slip in the corridor."),
        ("NO PARKING|DAY OR NIGHT", "Cars may not be left here."),
        ("BEWARE OF|THE DOG", "An animal guards the house."),
        ("QUIET PLEASE|LIBRARY", "One does not talk loudly among the books."),
        ("FARM SHOP|FRESH EGGS", "You can buy food straight from the hens."),
        ("PLATFORM 4|TRAINS TO BERGEN", "Walk to the track where the railway leaves."),
        ("SWIMMING|POOL CLOSED", "Nobody may bathe today."),
        ("BICYCLES|FOR HIRE", "Rent something to ride."),
        ("EMERGENCY|EXIT", "Leave this way if there is danger."),
        ("NO SMOKING", "Cigarettes are not allowed here."),
    ),
    "label": (
        ("RASPBERRY|JAM|340 g|Best before 2027", "Spread the fruit preserve on the bread."),
        ("OLIVE OIL|extra virgin|750 ml", "Pour some fat into the pan."),
        ("WALL PAINT|matt white|10 litres", "Coat the room with a roller."),
        ("DISHWASHER|TABLETS|40 pieces", "Clean the plates in the machine."),
        ("GREEN TEA|jasmine|20 bags", "Brew a hot drink from leaves."),
        ("COUGH SYRUP|2 x 10 ml daily|Keep out of reach", "Give the medicine to the child."),
        ("TOMATO SEEDS|sow from March|full sun", "Plant the vegetables in the greenhouse."),
        ("DOG FOOD|with beef|800 g", "Feed the puppy twice a day."),
        ("SUN CREAM|SPF 50|water resistant", "Protect the skin on the beach."),
        ("WOOD GLUE|dries in 30 min", "Stick the boards together."),
    ),
    "card": (
        ("Pancakes|250 g flour|3 eggs|500 ml milk|Fry in butter", "Thin batter is baked in a pan for breakfast."),
        ("Guacamole|2 avocados|1 lime|Coriander|Mash and serve", "A Mexican dip of green fruit."),
        ("Onion soup|6 onions|1 l beef stock|Gruyere|Toast", "A French bowl with melted cheese on top."),
        ("Apple pie|1 kg apples|Cinnamon|Short crust|Bake 45 min", "The cake with fruit under a lid of dough."),
        ("Lemonade|4 lemons|100 g sugar|Mint|Ice", "A cold drink for summer."),
        ("Meatballs|500 g minced beef|Breadcrumbs|1 egg|Gravy", "Roll small rounds and serve them with sauce."),
        ("Hummus|1 tin chickpeas|Tahini|Garlic|Olive oil", "A spread from the Middle East."),
        ("Risotto|300 g rice|White wine|Saffron|Parmesan", "Stir the Italian dish until it is creamy."),
        ("Chocolate mousse|200 g dark chocolate|4 eggs|Cream|Chill", "A sweet airy dessert."),
        ("Sushi|400 g rice|Nori|Salmon|Wasabi and soy", "Roll raw fish in seaweed."),
    ),
}  # fmt: skip


def drawn(kind: str, words: str, rng: random.Random) -> Image.Image:
    """One picture of a kind; all that is in it is its words."""
    size = {"screenshot": WIDE, "slide": WIDE, "label": TALL, "card": CARD, "sign": CARD}[kind]
    dark = kind == "sign" or rng.random() < 0.3
    tone = tuple(rng.randint(20, 90) if dark else rng.randint(205, 250) for _ in range(3))
    ink = (250, 250, 245) if dark else tuple(rng.randint(0, 70) for _ in range(3))
    picture = Image.new("RGB", size, tone)
    draw = ImageDraw.Draw(picture)
    head, *rest = words.split("|")
    height = {"screenshot": 26, "slide": 76, "sign": 120, "label": 96, "card": 62}[kind]
    small = height if kind in ("sign", "screenshot") else height // 2
    left, top = rng.randint(40, 120), rng.randint(40, 140)
    draw.rectangle((left - 20, top - 20, size[0] - 30, top + height + 16), outline=ink, width=3)
    font = ImageFont.load_default(height)
    while font.getlength(head) > size[0] - left - 40:
        height -= 4
        font = ImageFont.load_default(height)
    draw.text((left, top), head, ink, font)
    for row, line in enumerate(rest, start=1):
        place = (left, top + height + 24 + (row - 1) * int(small * 1.7))
        draw.text(place, line, ink, ImageFont.load_default(min(small, height)))
    if kind in ("sign", "label"):  # photographed, not quite straight
        picture = picture.rotate(rng.uniform(-5, 5), Image.Resampling.BICUBIC, fillcolor=tone)
    return picture


def write(folder: Path, photographs: int) -> dict[str, str]:
    """Draw them, and put photographs beside them; sentence → name of the file that it asks for."""
    rng = random.Random(SEED)  # noqa: S311
    found = {}
    for number, (kind, words, asked) in enumerate(
        (kind, *one) for kind, several in KINDS.items() for one in several
    ):
        name = f"{rng.getrandbits(32):08x}{number:02}"
        if kind in ("sign", "label"):
            drawn(kind, words, rng).save(folder / f"{name}.jpg", quality=88)
        else:
            drawn(kind, words, rng).save(folder / f"{name}.png")
        found[asked] = name
    there = sorted((data_folder() / "flickr8k" / "images").glob("*.jpg"))
    for number, file in enumerate(rng.sample(there, min(photographs, len(there)))):
        shutil.copy(file, folder / f"{number:08x}.jpg")
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--photographs", type=int, default=250, help="that lie beside them")
    arguments.add_argument("--show", type=Path, help="write the pictures there, and do nothing else")
    options = arguments.parse_args()
    if options.show:
        options.show.mkdir(parents=True, exist_ok=True)
        write(options.show, 0)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pictures"
        folder.mkdir()
        asked = write(folder, options.photographs)
        for ocr in (False, True):
            library = Library(Path(place) / f"lib{ocr:d}")
            began = time.perf_counter()
            library.add(folder, ocr=ocr, progress=Progress())
            took = time.perf_counter() - began
            ranks = []
            for sentence, name in asked.items():
                hits = library.search(sentence, 10)
                stems = [Path(hit.picture.path).stem for hit in hits]
                ranks.append(stems.index(name) if name in stems else 99)
            first, five, ten = (sum(rank < k for rank in ranks) for k in (1, 5, 10))
            what = "with" if ocr else "without"
            print(
                f"{what} the words in pictures: {first} of {len(ranks)} first, {five} among five,"
                f" {ten} among ten; indexed in {took:.1f} s"
            )


if __name__ == "__main__":
    main()
