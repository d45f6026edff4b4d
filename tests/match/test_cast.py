"""Who a text is about, and how its steps are read once that is known."""

import time

import pytest

from limner.match.cast import BEINGS, RELATIONS, Cast, being, cast_of, names_of, sentences
from limner.match.illustrate import query_texts
from limner.records import Block, Step, Story

MET = [
    "Leo the lion met Mia the mouse.",
    "Then Leo roared.",
    "So Leo left.",
    "And Mia danced.",
    "Night fell.",
]
TEXTS = {
    # what a text says, and how its steps are spelled; as they are where they say nothing of anybody
    "Nell the mouse baked a cake. | She slept.": "- | a mouse: She slept.",
    "Rose the rabbit ran. | Then Rose fell. | She slept.": "- | Then the rabbit fell. | a rabbit: She slept.",
    "Dog was sad. | He wanted a bone. | Then Dog slept.": "- | a dog: He wanted a bone. | -",
    "Ögmund the owl slept. | In the night Ögmund woke. | It was dark.": (
        "- | In the night the owl woke. | an owl: It was dark."
    ),
    "O'Brien the pirate sailed. | Then O'Brien's ship sank.": "- | Then the pirate's ship sank.",
    "Today Mia sang. | The girl slept. | Then Mia woke up.": "a girl: Today Mia sang. | - | a girl: Then Mia woke up.",
    "The old wolf howled. | He was hungry. | The wolf ate.": "- | a wolf: He was hungry. | -",
    # no names, and nobody who recurs
    "A dog runs on the beach. | Two men talk. | A boat sails. | Children play.": "- | - | - | -",
    "Children play in the snow. | A man rides a bicycle. | Children eat a cake. | A boat sails.": "- | - | - | -",
    "Cut the onions. | Cut the chicken into cubes. | Fry it. | Serve hot.": "- | - | - | -",
    "Mix 200 g of flour with water. | Bake for 20 minutes at 180 °C.": "- | -",
    "FINN WAS A FOX. | HE RAN. | THE END.": "- | - | -",
    "R2-D2 beeped. | 1984 | …": "- | - | -",
    "The fox ran.": "-",
    "": "-",
    "Der Bär Bruno rennt. | Bruno schläft. | Er frisst.": "- | - | -",
    "狐狸在跑。 | 它很累。": "- | -",
}


@pytest.mark.parametrize("text", TEXTS)
def test_steps_are_read_with_the_kind_of_those_whom_they_are_about(text):
    texts = text.split(" | ")
    cast, due = cast_of(texts), TEXTS[text].split(" | ")
    spelled = [cast.spelled(one) for one in texts]
    due = [one if new == "-" else new for one, new in zip(texts, due, strict=True)]
    assert spelled[1:] == due[1:]
    assert spelled[0] == due[0] or cast.kinds  # a name of the first step is spelled as its kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("There was a mouse called Nell.", "mouse"),
        ("This is a mouse named Nell.", "mouse"),
        ("One day a mouse, called Nell, woke up.", "mouse"),
        ("So Nell was a small brown mouse.", "mouse"),
        ("Then Nell, a brave mouse, went out.", "mouse"),
        ("Once the mouse Nell went out.", "mouse"),
        ("Then Queen Nell rode out.", "queen"),
        ("Nell’s tail was long. Nell the mouse was proud.", "mouse"),
        ("NELL the mouse shouted.", "mouse"),
    ],
)
def test_the_text_says_what_a_name_is(said, kind):
    cast = cast_of([said, "So Nell sat down.", "She slept."])
    assert (cast.kinds["nell"], cast.protagonist) == (kind, kind)
    assert cast.spelled("She slept.") == f"a {kind}: She slept."
    assert cast.spelled("Then Nell’s friend left.") == f"Then the {kind}’s friend left."


@pytest.mark.parametrize(
    ("texts", "title", "protagonist"),
    [
        (MET, "", "lion"),
        *((MET, title, "mouse") for title in ("Mia's day", "Mia’s Day", "MIA'S DAY", "The mouse Mia")),
        (["There was a fox called Finn.", "He ran."], "Finn's kite", "fox"),
        (["The wolf met a hen.", "The hen ran.", "The wolf ran.", "A wolf hid."], "", "wolf"),
        (["The wolf met a hen.", "The hen ran.", "The wolf ran.", "It hid."], "", ""),
        (["The wolf howled.", "The wolf ate.", *["It rained."] * 6], "", "wolf"),  # a quarter of the steps
        (["The wolf howled.", "The wolf ate.", *["It rained."] * 7], "", ""),
        (
            ["Wash the chicken.", "In a pot, simmer the chicken.", "3. Then carefully cut the chicken up."],
            "",
            "",
        ),
        (["Berta the bear cooks. Cut the fish.", "Stir. Berta never stops.", "Serve it."], "", "bear"),
        (["The hen was hungry.", "“Cut it out,” said the hen.", "'Take it!' said the hen."], "", "hen"),
    ],
)
def test_whom_a_text_is_about(texts, title, protagonist):
    assert cast_of(texts, title).protagonist == protagonist


def test_what_comes_before_the_steps_and_their_language_count():
    method = ("The chicken goes in the pot.", "After an hour, the chicken is done.")
    steps = [Step(text=text, run=(place, place + 1)) for place, text in enumerate(method, 1)]
    for role, protagonist in (("supplies", ""), ("", "chicken")):
        blocks = [Block(text="A chicken", role=role), *(Block(text=text) for text in method)]
        assert query_texts(Story(id="soup", steps=steps, blocks=blocks))[0].protagonist == protagonist
    # a German tiger is spelled as an English one; that is no reason for English words in a German step
    texts = ["Da schläft der Tiger.", "Er träumt.", "Dann frisst der Tiger.", "The boat sails."]
    story = Story(id="t", steps=tuple(Step(text=text) for text in texts))
    assert query_texts(story, ["de", "de", "de", "en"])[1].parts == [[text] for text in texts]


def test_of_two_that_are_named_alike_often_the_first_counts():
    """Sets have another order in every process: the choice must not go by it."""
    kinds = sorted(BEINGS - RELATIONS)
    for one, other in zip(kinds[::2], kinds[1::2], strict=False):
        met = [f"Today Leo the {one} met Mia the {other}.", "Then Leo and Mia danced.", "Night fell."]
        assert cast_of(met).protagonist == being(one)
        for last in (one, other):
            met = [
                f"Here the {one} met the {other}.",
                f"Then the {one} and the {other} danced.",
                f"A {last} slept.",
            ]
            assert cast_of(met).protagonist == being(last)


def test_forms_names_and_sentences():
    cast = Cast("mouse", {"nell": "mouse"})
    assert cast.spelled("The mice ran.") == "The mice ran."
    assert cast.spelled("Nell, the brave mouse, ran.") == "the brave mouse, ran."
    assert names_of(["We saw a rose.", "Then Rose is a colour."]) == []
    assert sentences("The fox ran home. Oh no! It was very late.") == [
        "The fox ran home.",
        "It was very late.",
    ]
    assert sentences("The fox ran home. Oh no!") == sentences("") == []


@pytest.mark.slow
def test_long_texts_take_time_in_proportion():
    """Thousands of names once took a pass over the text each."""
    letters = "bdfgklmnprst"
    places = range(4)
    names = ["".join(f"{letters[(n // 12**p) % 12]}a" for p in places).capitalize() for n in range(5_000)]
    began = time.process_time()
    cast = cast_of([f"So {name} met Karl the bear. It was late." for name in names])
    assert (cast.protagonist, cast.kinds) == ("bear", {"karl": "bear"})
    assert time.process_time() - began < 30  # a pass a name takes many minutes
