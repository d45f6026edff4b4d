"""Miniatures of data sets in the folders and under the names in which they are distributed."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image

from limner.research.datasets.pairs import Source
from limner.research.datasets.recipes.builder import build_recipes
from limner.research.datasets.sets.cite import QUESTIONS
from limner.research.datasets.sets.clue import CSV_NAMES, MAP_NAME
from limner.research.datasets.sets.clue import RELATIONS as CLUE

SPLITS = ("train", "val", "test")
WORDS = ("bread", "soup", "river", "market", "garden", "window", "candle", "ladder", "orchard", "chapel")
DOES = ("holds", "warms", "crosses", "fills", "carries", "paints")


def sentence(number: int) -> str:
    """Twelve words or so, of few different ones, that no other number gives."""
    rng = np.random.default_rng(number)
    first, second, third = rng.choice(WORDS, 3, replace=False)
    return (
        f"The {first} {rng.choice(DOES)} the {second} near the {third} on day {number // 10} at hour"
        f" {number % 10}."
    )


def picture(path: Path, number: int) -> None:
    """A small JPEG or PNG of coloured squares; another number gives a picture that looks otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(colours.repeat(40, axis=0).repeat(40, axis=1)).save(path)


def write(path: Path, value: object) -> None:
    """JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def split_of(number: int, count: int) -> str:
    """The first eight tenths train."""
    return SPLITS[0 if number < 0.8 * count else 1 if number < 0.9 * count else 2]


def coco(folder: Path, count: int = 20, year: int = 2014, karpathy: bool = True) -> Path:
    """`annotations`, `train2014` and `val2014` side by side, and Karpathy's file beside them."""
    images: dict[str, list[dict[str, object]]] = {"train": [], "val": []}
    captions: dict[str, list[dict[str, object]]] = {"train": [], "val": []}
    listed = []
    for number in range(count):
        half = "train" if number < 0.8 * count else "val"
        old = f"COCO_{half}2014_{number:012}.jpg"
        name = old if year == 2014 else f"{number:012}.jpg"
        images[half].append({"id": number, "file_name": name})
        texts = [sentence(10 * number + at) for at in range(5)]
        captions[half] += [{"image_id": number, "caption": text, "id": 0} for text in texts]
        picture(folder / f"{half}{year}" / name, number)
        listed.append(
            {
                "cocoid": number,
                "filename": old,
                "filepath": f"{half}2014",
                "split": split_of(number, count),
                "sentences": [{"raw": text, "tokens": text.split()} for text in texts],
            }
        )
    for half, own in images.items():
        value = {"info": {}, "licenses": [], "images": own, "annotations": captions[half]}
        write(folder / "annotations" / f"captions_{half}{year}.json", value)
        boxes = [{"image_id": one["id"], "bbox": [0, 0, 1, 1], "id": 0} for one in own]
        write(folder / "annotations" / f"instances_{half}{year}.json", value | {"annotations": boxes})
    if karpathy:
        write(folder / "dataset_coco.json", {"images": listed, "dataset": "coco"})
    return folder


def goodnews(folder: Path, count: int = 20) -> Path:
    """The captions, and the archive `resized.tar.gz` unpacked beside them; two pictures an article."""
    articles = {}
    for number in range(0, count, 2):
        name = f"{number:024x}"
        articles[name] = {
            "images": {str(at): sentence(number + at) for at in range(2)},
            "headline": {"main": "News"},
            "article_url": "https://news.example/1",
            "article": "Long text.",
        }
        for at in range(2):
            picture(folder / "resized" / f"{name}_{at}.jpg", number + at)
    write(folder / "captioning_dataset.json", articles)
    return folder


def politics(folder: Path, count: int = 20) -> Path:
    """The nested map, converted to JSON, and pictures in folders of issues."""
    issues: dict[str, list[dict[str, str]]] = {"abortion": [], "welfare": []}
    for number in range(count):
        issue = "abortion" if number % 2 else "welfare"
        path = f"left/{issue}/{number}.jpg"
        text = " ".join(sentence(1000 + 12 * number + at) for at in range(12))
        issues[issue].append({"local_path": path, "content_text": text})
        picture(folder / path, number)
    write(folder / "politics.json", {"left": issues})
    return folder


def conceptual(folder: Path, count: int = 20, host: str = "http://pictures.example") -> Path:
    """The TSV of training, without pictures: they are fetched."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{sentence(number)}\t{host}/{number}.jpg\n" for number in range(count)]
    (folder / "Train_GCC-training.tsv").write_text("".join(lines), encoding="utf-8")
    return folder


def fetched(folder: Path, count: int = 20) -> None:
    """Pictures of Conceptual Captions as `limner data fetch` names them, every tenth being dead."""
    for number in range(count):
        if number % 10:
            picture(folder / f"{number}.jpg", number)


def cite_plus(folder: Path, count: int = 20, pictures: str = "images") -> Path:
    """The release's two CSVs and its folder of pictures."""
    for split, numbers in (("train", range(count)), ("test", range(count, count + count // 2))):
        rows = [["", "stim_txt", "qimg", *(f"{one}_resp" for one in QUESTIONS)]]
        for number in numbers:
            name = f"soup-{number}_1_0.jpg"
            answers = [str(bool((number >> at) % 2)) for at in range(len(QUESTIONS))]
            rows.append([str(number), sentence(number), name, *answers])
            picture(folder / pictures / name, number)
        with (folder / f"q2-8_{split}_dis_11-08.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return folder


def cite(folder: Path, count: int = 20) -> Path:
    """The repository of CITE: `data/data.csv`, without pictures."""
    questions = [f"q{one}_resp" for one in (10, *range(1, 10))]
    lines = ["|".join(["", "Index", *questions, "qimg", "stim_id", "stim_txt", "complement"])]
    for number in range(count):
        answers = ["", "words", *(str(bool((number >> at) % 2)) for at in range(7)), ""]
        lines.append(
            "|".join(
                [str(number), "1", *answers, f"soup-{number}_1_0.jpg", f"{number}_1", sentence(number), ""]
            )
        )
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "README.md").write_text("# CITE\n")
    return folder


def cite_with_pictures(folder: Path) -> Path:
    """CITE, and the pictures that it names, which are RecipeQA's."""
    for number in range(20):
        picture(folder / "images" / f"soup-{number}_1_0.jpg", number)
    return cite(folder)


def clue(folder: Path, count: int = 20, pictures: bool = True) -> Path:
    """The release's two CSVs, the map of addresses, and pictures by number."""
    columns = ["", "index", "caption", "url", *CLUE, "Other", "When", "How", "Where", "Comment"]
    numbers = {"train": range(count), "test": range(count, count + count // 2)}
    folder.mkdir(parents=True, exist_ok=True)
    for split, name in CSV_NAMES.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            for number in numbers[split]:
                labels = [(number >> at) % 2 for at in range(len(CLUE))]
                url = f"http://pictures.example/{number}.jpg"
                rows.writerow([number, number, sentence(number), url, *labels, 0, 0, 0, 0, "False"])
                if pictures:
                    picture(folder / "images" / f"{number + 100}.jpg", number)
    total = count + count // 2
    write(folder / MAP_NAME, {f"http://pictures.example/{one}.jpg": one + 100 for one in range(total)})
    return folder


def vist(folder: Path, stories: int = 20) -> Path:
    """`sis`, `dii`, and the pictures in `train`, `val` and `test`, as the archives unpack."""
    told: dict[str, list[object]] = {split: [] for split in SPLITS}
    for story in range(stories):
        split = split_of(story, stories)
        for place in reversed(range(5)):  # the file's order is not the story's
            number = 5 * story + place
            told[split].append(
                [
                    {
                        "story_id": str(story),
                        "storylet_id": str(number),
                        "album_id": str(story),
                        "photo_flickr_id": str(10_000 + number),
                        "worker_arranged_photo_order": place,
                        "text": sentence(number).lower(),
                        "original_text": sentence(number),
                    }
                ]
            )
            suffix = "png" if place == 3 else "jpg"
            picture(folder / "images" / split / f"{10_000 + number}.{suffix}", number)
    for split, annotations in told.items():
        value = {"images": [], "albums": [], "annotations": annotations}
        write(folder / "sis" / f"{split}.story-in-sequence.json", value)
        alone = [[{"photo_flickr_id": "10000", "album_id": "0", "text": "a dog"}]]
        write(folder / "dii" / f"{split}.description-in-isolation.json", value | {"annotations": alone})
    return folder


def recipeqa(folder: Path, recipes: int = 12, steps: int = 3) -> Path:
    """A file of questions a split, and `images/SPLIT/images-qa`.

    Each recipe stands under two questions, and each of these withholds what it asks for.
    """
    asked: dict[str, list[object]] = {split: [] for split in SPLITS}
    for recipe in range(recipes):
        split = split_of(recipe, recipes)
        context = [
            {
                "title": f"Step {step + 1}",
                "body": sentence(2000 + steps * recipe + step),
                "images": [f"dish-{recipe}_{step}_0.jpg"],
            }
            for step in range(steps)
        ]
        for task, asked_for in (("visual_cloze", {"images": []}), ("textual_cloze", {"title": ""})):
            shown = [step | asked_for for step in context]
            asked[split].append(
                {
                    "recipe_id": f"dish-{recipe}",
                    "task": task,
                    "context": shown,
                    "choice_list": [],
                    "answer": 0,
                }
            )
        for step in range(steps):
            number = 2000 + steps * recipe + step
            picture(folder / "images" / split / "images-qa" / f"dish-{recipe}_{step}_0.jpg", number)
    for split, data in asked.items():
        write(folder / f"{split}.json", {"version": "1.0", "data": data})
    return folder


def recipe_pages(folder: Path, pages: int = 6) -> Path:
    """Saved recipe pages, three steps with a picture each."""
    for page in range(pages):
        steps = []
        for step in range(3):
            number = 5000 + 3 * page + step
            picture(folder / f"{number}.png", number)
            steps.append(f"<li>{sentence(number)}<img src='{number}.png'></li>")
        (folder / f"{page}.html").write_text(f"<html lang=en><ol>{''.join(steps)}</ol>", encoding="utf-8")
    return folder


def stepwise(folder: Path, recipes: int = 12, pages: int = 6) -> Path:
    """What `limner data build-recipes` makes of saved pages and a miniature of RecipeQA."""
    saved = recipe_pages(folder.parent / f"{folder.name}-pages", pages)
    qa = recipeqa(folder.parent / f"{folder.name}-recipeqa", recipes)
    build_recipes([str(saved)], folder, recipeqa=Source(qa))
    return folder
