"""Ordinary texts in the layouts that people have are divided as a person divides them.

`tests/texts` holds small texts, each with a JSON file: `expected` lists the divisions that are right, `never`
the words that are in no step. A step is its words or [title, words]; words in ⟨…⟩ may be there or not.
"""

import json
import re
from pathlib import Path

import pytest

import limner

TEXTS = Path(__file__).parents[1] / "texts"
KINDS = sorted({path.suffix for path in TEXTS.iterdir()} - {".json"})


def key(text):
    """Letters and digits, without the markers of lists."""
    text = re.sub(r"(?<!\w)(?:\d{1,2}|[a-z])[.)](?=\s)|\d\ufe0f?\u20e3", " ", text.casefold())
    return "".join(filter(str.isalnum, text))


def is_step(step, expected):
    title, words = expected if isinstance(expected, list) else ("", expected)
    variants = {key(re.sub("⟨.*?⟩", " ", words)), key(re.sub("[⟨⟩]", " ", words))}
    own = key(step.text)
    rest = own.partition(key(title))[2] if title and own.find(key(title)) in range(11) else None
    return (own in variants and key(title) in key(step.title)) or rest in variants


def said(text):
    return " ".join(re.findall(r"\w+", text.casefold()))


@pytest.mark.parametrize("suffix", KINDS)
def test_texts_are_divided_as_a_person_divides_them(suffix):
    wrong = []
    for path in sorted(TEXTS.glob(f"*{suffix}")):
        note = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        steps = limner.read(path).steps
        fits = any(
            len(steps) == len(division) and all(map(is_step, steps, division))
            for division in note["expected"]
        )
        never = [
            words for words in note["never"] for step in steps if f" {said(words)} " in f" {said(step.text)} "
        ]
        if not fits or never:
            wrong.append((path.name, never or [f"[{step.title}] {step.text[:60]}" for step in steps]))
    assert not wrong, "\n".join(f"{name}: {steps}" for name, steps in wrong)
