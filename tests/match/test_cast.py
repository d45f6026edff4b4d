"""Who a text is about, and how its steps are read once that is known."""

import doctest
import time

import pytest

from limner.match import cast as module
from limner.match.cast import BEINGS, RELATIONS, Cast, being, cast_of, names_of, sentences
from limner.match.illustrate import query_texts
from limner.records import Block, Step, Story


def read(texts, title=""):
    """The steps as the cast of the text spells them."""
    cast = cast_of(texts, title)
    return [cast.spelled(text) for text in texts]


def test_the_examples_hold():
    found = doctest.testmod(module)
    assert found.attempted >= 2
    assert not found.failed


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Nell the mouse baked a cake.", "mouse"),
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
    assert cast.kinds["nell"] == kind
    assert cast.protagonist == kind
    assert cast.spelled("She slept.") == f"a {kind}: She slept."
    assert cast.spelled("Then Nell’s friend left.") == f"Then the {kind}’s friend left."


def test_recipes_and_guides_have_no_protagonist():
    """A chicken that is cooked is nobody whom the text is about."""
    steps = [
        "Wash the chicken.",
        "In a large pot, simmer the chicken.",
        "3. Then carefully cut the chicken up.",
    ]
    assert cast_of(steps) == Cast()
    assert (
        cast_of(["Berta the bear cooks. Cut the fish.", "Stir. Berta never stops.", "Serve it."]).protagonist
        == "bear"
    )
    spoken = ["The hen was hungry.", "“Cut it out,” said the hen.", "'Take it!' said the hen."]
    assert cast_of(spoken).protagonist == "hen"
    method = ("The chicken goes in the pot.", "After an hour, the chicken is done.")
    steps = [Step(text=text, run=(place, place + 1)) for place, text in enumerate(method, 1)]
    for role, protagonist in (("supplies", ""), ("", "chicken")):
        blocks = [Block(text="A chicken", role=role), *(Block(text=text) for text in method)]
        assert query_texts(Story(id="soup", steps=steps, blocks=blocks))[0].protagonist == protagonist


def test_a_kind_can_be_the_name():
    assert read(["Dog was sad.", "He wanted a bone.", "Then Dog slept."]) == [
        "Dog was sad.",
        "a dog: He wanted a bone.",
        "Then Dog slept.",
    ]


def test_a_name_of_letters_beyond_ascii_and_with_an_apostrophe():
    texts = ["Ögmund the owl slept.", "In the night Ögmund woke.", "It was dark."]
    assert read(texts)[1:] == ["In the night the owl woke.", "an owl: It was dark."]
    assert cast_of(["O'Brien the pirate sailed.", "Then O'Brien's ship sank."]).spelled("O'Brien's ship") == (
        "the pirate's ship"
    )


def test_an_everyday_word_that_is_a_name():
    """Rose, Red and Will are English words; who is called so is told by capitals that never fall."""
    assert read(["Rose the rabbit ran.", "Then Rose fell.", "She slept."])[2] == "a rabbit: She slept."
    assert names_of(["We saw a rose.", "Then Rose is a colour."]) == []


def test_the_title_says_who_of_several_it_is():
    texts = [
        "Leo the lion met Mia the mouse.",
        "Then Leo roared.",
        "So Leo left.",
        "And Mia danced.",
        "Night fell.",
    ]
    assert cast_of(texts).protagonist == "lion"
    for title in ("Mia's day", "Mia’s Day", "MIA'S DAY", "The mouse Mia"):
        assert cast_of(texts, title).protagonist == "mouse"


def test_one_mention_is_enough_for_the_name_in_the_title():
    assert cast_of(["There was a fox called Finn.", "He ran."], "Finn's kite").protagonist == "fox"


def test_who_has_a_name_but_no_kind_is_what_the_text_calls_the():
    assert read(["Today Mia sang.", "The girl slept.", "Then Mia woke up."]) == [
        "a girl: Today Mia sang.",
        "The girl slept.",
        "a girl: Then Mia woke up.",
    ]


def test_without_names_it_is_the_being_that_recurs():
    assert read(["The old wolf howled.", "He was hungry.", "The wolf ate."])[1] == "a wolf: He was hungry."
    assert (
        cast_of(["The wolf met a hen.", "The hen ran.", "The wolf ran.", "A wolf hid."]).protagonist == "wolf"
    )
    assert cast_of(["The wolf met a hen.", "The hen ran.", "The wolf ran.", "It hid."]).protagonist == ""


@pytest.mark.parametrize(("count", "protagonist"), [(8, "wolf"), (9, "")])
def test_a_being_without_a_name_recurs_in_a_quarter_of_the_steps(count, protagonist):
    texts = ["The wolf howled.", "The wolf ate.", *("It rained." for _ in range(count - 2))]
    assert cast_of(texts).protagonist == protagonist


@pytest.mark.parametrize(
    "captions",
    [
        ["A dog runs on the beach.", "Two men talk.", "A boat sails.", "Children play.", "A woman sings."],
        ["The train crosses a bridge.", "The boy eats.", "The woman sings.", "A dog runs."],
        ["Children play in the snow.", "A man rides a bicycle.", "Children eat a cake.", "A boat sails."],
        ["Dogs run on the beach.", "A man rides a bicycle.", "Dogs sleep.", "A boat sails."],
        ["Cut the onions.", "Cut the chicken into cubes.", "Fry it.", "Serve hot."],
    ],
)
def test_sentences_with_nothing_in_common_have_no_protagonist(captions):
    assert cast_of(captions).protagonist == ""
    assert read(captions) == captions


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["The fox ran."],
        ["Mix 200 g of flour with water.", "Bake for 20 minutes at 180 °C."],
        ["FINN WAS A FOX.", "HE RAN.", "THE END."],
        ["R2-D2 beeped.", "1984", "…"],
        ["Der Bär Bruno rennt.", "Bruno schläft.", "Er frisst."],
        ["Le chat dort.", "Le chat mange.", "Il court."],
        ["狐狸在跑。", "它很累。"],
        ["كلب بني يركض على الشاطئ.", "القط نائم."],
    ],
)
def test_a_text_without_somebody_stays_as_it_is(texts):
    assert read(texts) == texts


def test_words_of_another_language_that_look_like_beings_change_nothing():
    """A German tiger is spelled as an English one; that is no reason for English words in a German step."""
    texts = ["Da schläft der Tiger.", "Er träumt.", "Dann frisst der Tiger.", "The boat sails."]
    story = Story(id="t", steps=tuple(Step(text=text) for text in texts))
    _, readings = query_texts(story, ["de", "de", "de", "en"])
    assert [own for (own,) in readings.parts] == texts


def test_of_two_that_are_named_alike_often_the_first_counts():
    """Sets have another order in every process: the choice must not go by it."""
    kinds = sorted(BEINGS - RELATIONS)
    for one, other in zip(kinds[::2], kinds[1::2], strict=False):
        met = [f"Today Leo the {one} met Mia the {other}.", "Then Leo and Mia danced.", "Night fell."]
        assert cast_of(met).protagonist == being(one)
        met = [
            f"Here the {one} met the {other}.",
            f"Then the {one} and the {other} danced.",
            f"A {one} slept.",
        ]
        assert cast_of(met).protagonist == being(one)
        met = [
            f"Here the {one} met the {other}.",
            f"Then the {one} and the {other} danced.",
            f"A {other} slept.",
        ]
        assert cast_of(met).protagonist == being(other)


def test_a_step_that_names_the_protagonist_in_any_form_begins_as_it_did():
    cast = Cast("mouse", {"nell": "mouse"})
    assert cast.spelled("The mice ran.") == "The mice ran."
    assert cast.spelled("Nell, the brave mouse, ran.") == "the brave mouse, ran."
    assert Cast("", {"nell": "mouse"}).spelled("She met Nell.") == "She met the mouse."


@pytest.mark.slow
def test_long_texts_take_time_in_proportion():
    """Thousands of names once took a pass over the text each."""
    letters = "bdfgklmnprst"
    names = [
        "".join(f"{letters[(n // 12**place) % 12]}a" for place in range(4)).capitalize() for n in range(5_000)
    ]
    texts = [f"So {name} met Karl the bear. It was late." for name in names]
    began = time.process_time()
    cast = cast_of(texts)
    assert (cast.protagonist, cast.kinds) == ("bear", {"karl": "bear"})
    assert time.process_time() - began < 30  # a pass a name takes many minutes


def test_sentences_are_those_that_say_something():
    assert sentences("The fox ran home. Oh no! It was very late.") == [
        "The fox ran home.",
        "It was very late.",
    ]
    assert sentences("The fox ran home. Oh no!") == []
    assert sentences("") == []
