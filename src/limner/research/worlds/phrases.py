"""What is said: captions, the texts of pages, and what a text is to its picture.

Reads its words from the tables beside it; the drawings of `tales` say what is true.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from limner.research.worlds.tales import Tale
from limner.research.worlds.world import Character, DrawnScene, Style, read_table

CITE = (
    "expansion",
    "image_needed",
    "elaboration_t",
    "elaboration_i_tool",
    "temporal_before",
    "temporal_after",
    "temporal_during",
)
CLUE = ("visible", "subjective", "action", "story", "meta", "irrelevant")
MARK = re.compile(r"\[([^\]|]+)(?:\|([^\]]+))?\]")
EXTRA_KINDS = ("story", "subjective", "quantity", "deictic", "meta", "watcher", "none")
EXTRA_SHARES = (0.16, 0.16, 0.13, 0.09, 0.04, 0.08, 0.34)


@dataclass(frozen=True)
class PageText:
    """The words of a page and what they are to the picture.

    Attributes:
        text: one to three sentences.
        kinds: kind of each sentence: says, action, story, subjective, quantity, deictic, meta, irrelevant,
            watcher.
        mentions: entities named, as labels, states or names.
        relations: CITE and CLUE relation → whether it holds.
    """

    text: str
    kinds: tuple[str, ...]
    mentions: frozenset[str]
    relations: dict[str, bool]


@cache
def wordings() -> Mapping[str, Any]:
    """Words for any story: `lines` by kind, `medium` by texture, `caption` by place, hour and weather."""
    return read_table("wording")


def caption(scene: DrawnScene) -> str:
    """Literal description of a picture: who (by looks), what, where, when; the hero is drawn last."""
    doing, _, watcher = scene.doing.partition(", while ")
    phrases = wordings()["caption"]
    words = [scene.figures[-1].who.look, doing, phrases[scene.place], phrases[scene.time]]
    if scene.outdoors:
        words.append(phrases[scene.weather])
    line = " ".join(word for word in words if word)
    return f"{line}, while {watcher}" if watcher else line


def plain(marked: str) -> tuple[str, frozenset[str]]:
    """Take the marks out of a sentence.

    Args:
        marked: text with ``[noun]`` and ``[words|noun]``.
    Returns:
        The text, and the nouns.
    """
    return MARK.sub(r"\1", marked), frozenset(m[2] or m[1] for m in MARK.finditer(marked))


def fill(line: str, hero: Character, friend: Character | None, *, how: str) -> str:
    """Put the characters into a line; the result still carries marks.

    Args:
        line: wording from a table.
        hero: who {H}, {name} and the pronouns stand for.
        friend: who {friend} and {kind} stand for.
        how: what {H} becomes: full, name, kind or pronoun.
    """
    he, his, him = ("she", "her", "her") if hero.female else ("he", "his", "him")
    full = f"[{hero.name}] the [{hero.species}]"
    subject = {
        "full": full,
        "name": f"[{hero.name}]",
        "kind": f"The little [{hero.species}]",
        "pronoun": he.capitalize(),
    }[how]
    return line.format(
        H=subject,
        name=full if how == "full" else f"[{hero.name}]",
        he=he,
        his=his,
        him=him,
        He=he.capitalize(),
        His=his.capitalize(),
        friend=f"[{friend.name}]" if friend else "somebody",
        kind=friend.species if friend else "stranger",
    )


def relations_of(scene: DrawnScene, kinds: Sequence[str], mentions: frozenset[str]) -> dict[str, bool]:
    """Which relations hold between a text and the picture on its page.

    Args:
        scene: what is drawn.
        kinds: kinds of the sentences.
        mentions: entities the text names.
    Returns:
        Relation → whether it holds. *visible*: it describes what can be seen now and names nothing that is
        not there. *temporal_before*: the picture shows the preparation of what the text reports (i < t);
        *temporal_after*: its result (i > t); *temporal_during*: the very moment (i = t).
        *elaboration_i_tool*: a tool is seen, not named.
    """
    says, does = "says" in kinds, "action" in kinds
    phase = scene.phase
    about = says or does or "quantity" in kinds or "deictic" in kinds
    return {
        "expansion": about,
        "image_needed": "deictic" in kinds,
        "elaboration_t": "quantity" in kinds,
        "elaboration_i_tool": about and bool(scene.tool) and scene.tool not in mentions,
        "temporal_before": does and phase == "before",
        "temporal_after": does and phase == "after",
        "temporal_during": (does and phase == "during") or (says and not does),
        "visible": (says or (does and phase == "during")) and mentions <= scene.names,
        "subjective": "subjective" in kinds,
        "action": does,
        "story": "story" in kinds,
        "meta": "meta" in kinds,
        "irrelevant": "irrelevant" in kinds,
    }


def write_page(
    scene: DrawnScene,
    tale: Tale,
    hero: Character,
    friend: Character | None,
    *,
    style: Style,
    rng: np.random.Generator,
    first: bool,
    used: set[str],
) -> PageText:
    """Write the text of one page.

    Args:
        scene: its picture.
        tale: where the wordings come from.
        hero: main character.
        friend: the other one of the story, in this picture or not.
        style: named by remarks on how the picture was made.
        rng: source of chance.
        first: whether this is the first page, which names the hero in full.
        used: wordings the story has used; they are avoided while others are left, and this page's are added.
    """
    sketch = tale.sketches[scene.phase]
    draw = float(rng.random())
    lead = (
        ["says"] if draw < 0.36 else ["action"] if draw < 0.78 else ["says", "action"] if draw < 0.90 else []
    )
    if first and not lead:
        lead = ["says"]
    if scene.phase == "after":
        # The deed came before what is seen.
        lead = lead[::-1]
    extra = str(rng.choice(EXTRA_KINDS, p=EXTRA_SHARES))
    if not lead:
        kinds = [str(rng.choice(["story", "subjective", "meta", "irrelevant"], p=[0.45, 0.15, 0.12, 0.28]))]
    else:
        kinds = [*lead, extra] if extra != "none" else lead
    pools = {
        "says": sketch.says,
        **tale.lines,
        **wordings()["lines"],
    }
    said, spoken, mentions = [], [], frozenset[str]()
    for i, kind in enumerate(kinds):
        if not pools[kind] or (kind == "watcher" and friend is None):
            continue
        fresh = [line for line in pools[kind] if line not in used] or list(pools[kind])
        line = str(rng.choice(fresh))
        used.add(line)
        # Pronouns need somebody to point back to: the first sentence that speaks of the hero names it.
        how = "full" if first and i == 0 else "pronoun"
        if i == 0 and not first:
            how = str(rng.choice(["name", "kind", "pronoun", "full"], p=[0.42, 0.18, 0.25, 0.15]))
        if kind == "meta":
            line = line.replace("{medium}", wordings()["medium"][style.texture])
        text, named = plain(fill(line, hero, friend, how=how))
        said.append(text)
        spoken.append(kind)
        mentions |= named
    return PageText(" ".join(said), tuple(spoken), mentions, relations_of(scene, spoken, mentions))
