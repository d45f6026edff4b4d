"""Embedding speed of bfloat16, float32 and OpenVINO, and what the precision costs in retrieval.

Run: python benchmarks/embedding.py --weights resnet50.safetensors [--pictures 256] [--rounds 3]
Reads the validation split of the storybook data beside the project (LIMNER_DATA overrides the place).
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from limner.arrays import scores
from limner.encoders.catalogue import image_encoder, text_encoder

BATCH = 32
DATA = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[2] / "shared")) / "data" / "storybook"
VARIANTS = {
    "torch float32": {"precision": "float32"},
    "torch bfloat16": {"precision": "bfloat16"},
    "openvino bfloat16": {"precision": "bfloat16", "engine": "openvino"},
}


def read_pages():
    stories = [json.loads(line) for line in (DATA / "stories.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        (story["story_id"], page["text"], page["sha256"], DATA / page["image"])
        for story in stories
        if story["split"] == "val"
        for page in story["pages"]
    ]


def encode(encoder, pixels):
    parts = [encoder.encode_pixels(pixels[start : start + BATCH]) for start in range(0, len(pixels), BATCH)]
    return {space: np.concatenate([part.spaces[space] for part in parts]) for space in parts[0].spaces}


def same_story(visual, owners, hashes):
    """R@1 and R@5 of picture → another picture of its story; copies of the query do not count."""
    other = hashes[:, None] != hashes[None]
    right = (owners[:, None] == owners[None]) & other
    order = np.argsort(-np.where(other, scores(visual, visual), -9), axis=1)
    hits = np.take_along_axis(right, order, axis=1)[right.any(axis=1)]
    return hits[:, 0].mean(), hits[:, :5].any(axis=1).mean()


def text_to_picture(texts, labels, hashes):
    """R@5, R@10 and median rank of page text → its picture; gallery without copies, ties count against."""
    _, first, target = np.unique(hashes, return_index=True, return_inverse=True)
    table = scores(texts, labels[first])
    ranks = (table >= table[np.arange(len(texts)), target][:, None]).sum(axis=1)
    return (ranks <= 5).mean(), (ranks <= 10).mean(), np.median(ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--name", default="resnet50")
    parser.add_argument("--pictures", type=int, default=256, help="timed pictures per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="torch threads; 1 on a machine shared with others")
    asked = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"no storybook data at {DATA}; set LIMNER_DATA")
    if asked.threads:
        torch.set_num_threads(asked.threads)
    pages = read_pages()
    owners, hashes = np.array([page[0] for page in pages]), np.array([page[2] for page in pages])
    words = text_encoder()
    texts = words.encode_text([page[1] for page in pages])
    made = {
        label: image_encoder(asked.name, weights=asked.weights, sentences=words, **options)
        for label, options in VARIANTS.items()
    }
    first = made["torch float32"]
    pixels = np.stack([first.prepare(Image.open(page[3]).convert("RGB")) for page in pages])
    timed = pixels[: asked.pictures]
    seconds = {label: [] for label in made}
    work = {label: [] for label in made}
    for encoder in made.values():
        encode(encoder, timed[:BATCH])
    # Interleaved rounds, so that a busy machine slows all of them; the best round of each counts.
    for _ in range(asked.rounds):
        for label, encoder in made.items():
            start, start_work = time.perf_counter(), time.process_time()
            encode(encoder, timed)
            seconds[label].append(time.perf_counter() - start)
            work[label].append(time.process_time() - start_work)
    found = {label: encode(encoder, pixels) for label, encoder in made.items()}
    print(f"{asked.name}, {len(timed)} pictures × {asked.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    for label, spaces in found.items():
        effort = 1000 * min(work[label]) / len(timed)
        rate = len(timed) / min(seconds[label])
        cosine = (spaces["visual"] * found["torch float32"]["visual"]).sum(axis=1)
        story = same_story(spaces["visual"], owners, hashes)
        search = text_to_picture(texts, spaces["labels"], hashes)
        print(
            f"{label:18} {rate:6.1f} pictures/s, {effort:5.1f} ms of processor | "
            f"cosine to float32 min {cosine.min():.4f} mean {cosine.mean():.5f} | "
            f"same story R@1 {story[0]:.3f} R@5 {story[1]:.3f} | "
            f"text→picture R@5 {search[0]:.3f} R@10 {search[1]:.3f} MedR {search[2]:.0f}"
        )
    for what, kept in (("elapsed", seconds), ("processor", work)):
        plain, half, fast = (min(kept[label]) for label in VARIANTS)
        print(
            f"{what} time: bfloat16 {plain / half:.2f}× float32 (asked: 2.5×), "
            f"openvino {half / fast:.2f}× torch bfloat16 (asked: 2×)"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
