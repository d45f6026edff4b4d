"""Rule-based coreference: adds the protagonist to steps that do not name it, such as those with only "she".

A caption says "a fox ties a kite" where the story says "he knotted the line to it". The rules are for
English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from limner.language import english_words, split_sentences

_BEINGS = """
    actor ant antelope ape artist astronaut aunt baboon baby badger baker bat bear beaver bee beetle
    bird bison boar boy bride brother buffalo builder bull bunny butcher butterfly calf camel carpenter
    cat caterpillar chameleon cheetah chick chicken chief child chimpanzee clown cockerel cook cousin
    cow crab crane cricket crocodile crow cub cyclist dancer daughter deer dinosaur doctor dog dolphin
    donkey dove dragon dragonfly driver duck duckling eagle elder elephant engineer fairy farmer father
    fish fisherman flamingo fly fox friend frog gazelle ghost giant giraffe girl goat goose gorilla
    granddaughter grandfather grandma grandmother grandpa grandson grasshopper groom guard guest
    guinea-fowl hamster hare hawk hedgehog hen herder heron hippo hippopotamus horse hunter husband
    hyena impala infant insect jackal judge kangaroo kid king kitten knight koala lady ladybird lamb
    leopard lion lioness lizard lobster man mayor mechanic merchant mermaid minister mole mongoose monk
    monkey monster mosquito moth mother mouse mule musician neighbor neighbour nephew niece nun nurse
    octopus officer ogre ostrich otter owl ox painter panda parrot peacock pelican penguin person pig
    pigeon piglet pilot pirate player policeman policewoman politician pony potter president priest
    prince princess pupil puppy queen rabbit ram rat raven rhino rhinoceros rider robin robot rooster
    runner sailor salmon scientist seal servant shark sheep shepherd shopkeeper singer sister skater
    skier snail snake snowman soldier son sparrow spider squid squirrel stork student surfer swan
    tadpole tailor teacher thief tiger toad toddler tortoise tourist trader turkey turtle twin uncle
    villager vulture waiter walrus warthog wasp weasel weaver whale wife witch wizard wolf woman worker
    worm zebra
    """
BEINGS = frozenset(_BEINGS.split())
"""People and animals that a picture can show, in the singular."""
PLURALS = {
    "men": "man", "women": "woman", "children": "child", "mice": "mouse", "geese": "goose", "oxen": "ox",
    "wolves": "wolf", "people": "person", "calves": "calf", "wives": "wife", "thieves": "thief",
    "policemen": "policeman", "fishermen": "fisherman", "lads": "boy", "guys": "man",
    "fish": "fish", "sheep": "sheep", "deer": "deer",
}  # fmt: skip
"""Irregular plurals, with their singular."""
EVERYDAY = {
    "mum": "mother", "mom": "mother", "mummy": "mother", "dad": "father", "daddy": "father",
    "gran": "grandmother", "granny": "grandmother", "kitty": "cat", "doggy": "dog", "guy": "man",
}  # fmt: skip
"""Colloquial names, with the standard one."""
RELATIONS = frozenset(
    (
        "baby", "cousin", "friend", "kid", "neighbour", "neighbor", "person", "pupil", "runner", "student",
        "twin", "villager", "worker",
    )
)  # fmt: skip
"""Words for relatives and the like, which a picture cannot show; never used as a kind."""
_INSTRUCTIONS = """
    add adjust align apply arrange assemble attach bake beat bend blanch blend boil bolt braise bring
    brush chill chop clean coat combine connect cook cool cover crack crimp crush cut detach dilute dip
    discard disconnect dissolve drain drill drizzle drop dry fasten fill filter fit flip fold fry garnish
    glue grate grease grill grind heat hold insert install keep knead lay leave lift loosen lower make
    marinate mash measure melt mince mix mount open paste peel place plug pour preheat prepare press prick
    pull push put reduce refrigerate remove repeat replace reserve rinse roast roll rotate rub sand saute
    sauté scoop score scrape screw seal season secure select separate serve set sew shake shape shred sift
    simmer skim slice slide soak solder spoon spray spread sprinkle squeeze stack steam stick stir strain
    take tap tape tie tighten toast toss transfer trim turn twist unplug unscrew use warm wash weigh whip
    whisk wind wipe wrap
    """
INSTRUCTIONS = frozenset(_INSTRUCTIONS.split())
"""Verbs with which sentences of recipes and guides often begin."""
_OPENING = re.compile(
    r"(?:^[^\w'\"‘“„«]*|, )(?:step \d+\W+)?(?:(?:then|now|next|first|finally|\w+ly),? )*([^\W\d_]+)"
)
NEAR = 64
"""Number of characters before a name in which its kind is searched."""
_WORD = re.compile(r"[^\W\d_]+(?:[’'-][^\W\d_]+)*")
_AFTER = re.compile(r",? (?:the|a|an|(?:is|was) an?) (?P<words>(?:[\w-]+ ?){1,4})")
_BEFORE = re.compile(r"(?P<word>[\w-]+)(?: called| named|, named|, called)? $")
_PRONOUN = re.compile(r"\b(?:he|she|him|his|her|hers)\b", re.IGNORECASE)
_ARTICLES = frozenset(("the", "little", "old", "big"))
_TWICE = re.compile(r"\bthe (\w+),? the ((?:\w+ ){0,2})\1\b", re.IGNORECASE)
_COMMON_WORDS = """
    a an the and but or so if when while then now once one two three at in on of to for from by with as
    it he she they we i you his her their my your our its this that these those there here what who why
    how where which all some many every each no not yes oh after before soon last back up down out off
    over under again also only just very more most do does did is are was were be been has had have let
    lets can could will would may might must never always suddenly finally later today tomorrow
    yesterday first next even because until since during inside outside near meanwhile hello dear thank
    thanks please come look see go good bye everyone everybody somebody nobody someone something nothing
    everything mr mrs miss dr sir monday tuesday wednesday thursday friday saturday sunday january
    february march april june july august september october november december god
    """
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True)
class Cast:
    """Protagonist and named beings of a text.

    Attributes:
        protagonist: kind of being that the text is about, such as "fox"; "" without one.
        kinds: kind of being, such as "fox", by proper name in lower case, as far as the text states it.
    """

    protagonist: str = ""
    kinds: dict[str, str] = field(default_factory=dict)

    def spelled(self, text: str) -> str:
        """Replace names by "the" and their kind, and add the protagonist.

        A step that does not name the protagonist gets it as a prefix, unless the step is about somebody else,
        that is, names another being and has no personal pronoun.

        >>> Cast("fox", {"finn": "fox"}).spelled("Finn slept.")
        'the fox slept.'
        >>> Cast("fox", {"finn": "fox"}).spelled("He ran home.")
        'a fox: He ran home.'
        """
        plain = _TWICE.sub(r"the \2\1", _WORD.sub(self._in_place, text))
        named = beings(plain)
        strangers = set(named).difference(self.kinds.values(), RELATIONS)
        if not self.protagonist or self.protagonist in named or (strangers and not _PRONOUN.search(text)):
            return plain
        return f"{'an' if self.protagonist[:1] in 'aeiou' else 'a'} {self.protagonist}: {plain}"

    def _in_place(self, found: re.Match[str]) -> str:
        """Replace a name by "the" and its kind; other words are unchanged."""
        word = found.group()
        name, ending = (word[:-2], word[-2:]) if word[-2:] in ("'s", "’s") else (word, "")
        kind = self.kinds.get(name.lower()) if word[:1].isupper() else None
        return word if kind is None or kind == name.lower() else f"the {kind}{ending}"


def cast_of(texts: Sequence[str], title: str = "", *, is_guide: bool = False) -> Cast:
    """Find the cast of a text.

    In a recipe or guide, only names that are no English words count: "Berta the bear", but not "the chicken"
    or "Chicken Wings".

    Args:
        texts: steps of the text, in order.
        title: title of the text, or "".
        is_guide: whether it is known to be a recipe or guide; otherwise, it is one if it `instructs`.
    """
    kinds: dict[str, str] = {}
    is_guide = is_guide or instructs(texts)
    names = [name for name in names_of(texts) if not is_guide or name not in english_words()]
    said: dict[str, Counter[str]] = {name: Counter() for name in names}
    for text in (title, *texts):
        for name, kind in _kinds_said(said, text):
            said[name][kind] += 1
    for name in names:
        if said[name]:
            kinds[name] = said[name].most_common(1)[0][0]
        elif name in BEINGS | EVERYDAY.keys() and (own := _kind(name)) is not None:
            kinds[name] = own  # not plurals: "Children" begins many sentences
    in_title = [kinds[word] for word in _names(title) if word in kinds]
    steps_of = Counter(
        kind
        for text in texts
        for kind in dict.fromkeys(kinds[word] for word in _names(text) if word in kinds)
    )
    best, count = (steps_of.most_common(1) or [("", 0)])[0]
    if in_title and steps_of[in_title[0]] > 0:
        return Cast(in_title[0], kinds)
    if count >= 2 or is_guide:
        return Cast(best if count >= 2 else "", kinds)
    # Otherwise the being that recurs as "the X" while others are rare; if the text has a proper name, once is
    # enough.
    definite: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for text in texts:
        definite.update(kind for kind in _definite(text) if kind not in RELATIONS)
        every.update(beings(text))
    if definite:
        best, count = max(definite.items(), key=lambda one: (one[1], every[one[0]]))
        rest = max((n for kind, n in every.items() if kind != best), default=0)
        # An English word at the start of a sentence, often an imperative ("Cut"), does not count as a name,
        # nor does a name that occurs once in a text without personal pronouns.
        often = Counter(word for text in texts for word in set(_names(text)))
        spoken_of = any(map(_PRONOUN.search, texts))
        named = any(name not in english_words() and (spoken_of or often[name] > 1) for name in names)
        enough = 1 if named and len(definite) == 1 else max(2, len(texts) / 4)
        if count >= enough and (enough == 1 or every[best] > rest):
            return Cast(best, kinds)
    return Cast("", kinds)


def instructs(texts: Sequence[str]) -> bool:
    """Whether most steps of a text contain an instruction, as those of recipes and guides do.

    An instruction is a sentence that begins with a verb, such as "Mix it", or has one after its first comma,
    such as "In a bowl, mix it".
    """
    openings = (
        [_OPENING.findall(sentence.lower())[:2] for sentence in split_sentences(text)] for text in texts
    )
    instructed = sum(not INSTRUCTIONS.isdisjoint(chain(*words)) for words in openings)
    return 2 * instructed > len(texts)


def being(word: str) -> str | None:
    """Being that a word names, in the singular, or None."""
    low = word.lower()
    if low in BEINGS:
        return low
    if low in PLURALS or low in EVERYDAY:
        return PLURALS.get(low) or EVERYDAY[low]
    for ending, put in (("ies", "y"), ("es", ""), ("s", "")):
        if low.endswith(ending) and low[: -len(ending)] + put in BEINGS:
            return low[: -len(ending)] + put
    return None


def _kind(word: str) -> str | None:
    """Being that a word names, if a picture can show it, or None."""
    found = being(word)
    return None if found in RELATIONS else found


def beings(text: str) -> list[str]:
    """Kinds of beings that a text names, each once, in order."""
    found = (being(word.removesuffix("'s").removesuffix("’s")) for word in _words(text))
    return list(dict.fromkeys(kind for kind in found if kind is not None))


def names_of(texts: Sequence[str]) -> list[str]:
    """Find proper names, in lower case: words that are always capitalised inside sentences.

    A word that occurs only at the start of sentences is a name if it is not an English word, or if it starts
    several and is a being. Otherwise "Cut" would be a person in a recipe, and "Cut the chicken" would state
    its kind.
    """
    capital: Counter[str] = Counter()
    inner: Counter[str] = Counter()
    lower: set[str] = set()
    for text in texts:
        for sentence in split_sentences(text):
            for place, raw in enumerate(_words(sentence)):
                word = raw.removesuffix("'s").removesuffix("’s")
                low = word.lower()
                if word[:1].isupper() and (len(word) == 1 or not word.isupper()):
                    capital[low] += 1
                    inner[low] += place > 0
                elif word[:1].islower():
                    lower.add(low)
    return [
        word
        for word, count in capital.items()
        if word not in lower
        and word not in _COMMON
        and len(word) > 1
        and (inner[word] or word not in english_words() or (count > 1 and being(word) is not None))
    ]


def sentences(text: str) -> list[str]:
    """Sentences of a step with at least three words; empty unless there are several."""
    found = [one for one in split_sentences(text) if len(_words(one)) > 2]
    return found if len(found) > 1 else []


def _kinds_said(names: Container[str], text: str) -> Iterator[tuple[str, str]]:
    """Yield names with the kinds that a text states: "Nell the mouse", "a fox called Finn", "King Leo"."""
    for found in _WORD.finditer(text):
        word = found.group().removesuffix("'s").removesuffix("’s")
        name, start, end = word.lower(), found.start(), found.start() + len(word)
        if name not in names or not word[0].isupper():
            continue
        if after := _AFTER.match(text, end):
            kind = next((kind for kind in map(_kind, after["words"].split()) if kind), None)
            if kind is not None:
                yield name, kind
        before = _BEFORE.search(text, max(start - NEAR, 0), start)
        if before and (kind := _kind(before["word"])) is not None:
            yield name, kind


def _definite(text: str) -> list[str]:
    """Kinds of beings that a text calls "the X", each once, in order."""
    said = (word.lower() for before, word in pairwise(_words(text)) if before.lower() in _ARTICLES)
    return list(dict.fromkeys(word for word in said if being(word) == word))


def _names(text: str) -> list[str]:
    """Capitalised words, in lower case and without a genitive."""
    return [word.lower().removesuffix("'s").removesuffix("’s") for word in _words(text) if word[:1].isupper()]


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
