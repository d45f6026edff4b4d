"""Who a text is about, and how its steps are read once that is known."""

import time

import pytest

from limner.match.cast import BEINGS, RELATIONS, Cast, being, cast_of, names_of, sentences
from limner.match.illustrate import query_texts
from limner.records import Block, Step, Story

SPELLED = """
Nell the mouse baked a cake. | She slept. => - | a mouse: She slept.
Rose the rabbit ran. | Then Rose fell. | She slept. => - | Then the rabbit fell. | a rabbit: She slept.
Dog was sad. | He wanted a bone. | Then Dog slept. => - | a dog: He wanted a bone. | -
Ögmund the owl slept. | At night Ögmund woke. | He ate. => - | At night the owl woke. | an owl: He ate.
O'Brien the pirate sailed. | Then O'Brien's ship sank. => - | Then the pirate's ship sank.
Today Mia sang. | The girl slept. | Then Mia woke. => a girl: Today Mia sang. | - | a girl: Then Mia woke.
The old wolf howled. | He was hungry. | The wolf ate. => - | a wolf: He was hungry. | -
A dog runs on the beach. | Two men talk. | A boat sails. | Children play. => - | - | - | -
Children play in snow. | A man rides a bicycle. | Children eat a cake. | A boat sails. => - | - | - | -
Cut the onions. | Cut the chicken into cubes. | Fry it. | Serve hot. => - | - | - | -
FINN WAS A FOX. | HE RAN. | THE END. => - | - | -
R2-D2 beeped. | 1984 | … | The fox ran. => - | - | - | -
Der Bär Bruno rennt. | Bruno schläft. | Er frisst. => - | - | -
狐狸在跑。 | 它很累。 | كلب بني يركض على الشاطئ. => - | - | -
"""
NELL = """
There was a mouse called Nell. | This is a mouse named Nell. | One day a mouse, called Nell, woke up.
So Nell was a small brown mouse. | Then Nell, a brave mouse, went out. | Once the mouse Nell went out.
Then Queen Nell rode out. | Nell’s tail was long. Nell the mouse was proud. | NELL the mouse shouted.
"""
MET = "Leo the lion met Mia the mouse. | Then Leo roared. | So Leo left. | And Mia danced. | Night fell."
RAIN = " | It rained." * 6
ABOUT = [  # who a text is about, the text, and its title
    ("lion", MET, ""),
    *(("mouse", MET, title) for title in ("Mia's day", "Mia’s Day", "MIA'S DAY", "The mouse Mia")),
    ("fox", "There was a fox called Finn. | He ran.", "Finn's kite"),
    ("wolf", "The wolf met a hen. | The hen ran. | The wolf ran. | A wolf hid.", ""),
    ("", "The wolf met a hen. | The hen ran. | The wolf ran. | It hid.", ""),
    ("wolf", f"The wolf howled. | The wolf ate.{RAIN}", ""),  # in a quarter of the steps
    ("", f"The wolf howled. | The wolf ate.{RAIN} | It rained.", ""),
    ("", "Wash the chicken. | In a pot, simmer the chicken. | 3. Then carefully cut the chicken up.", ""),
    ("bear", "Berta the bear cooks. Cut the fish. | Stir. Berta never stops. | Serve it.", ""),
    ("hen", "The hen was hungry. | “Cut it out,” said the hen. | 'Take it!' said the hen.", ""),
]


@pytest.mark.parametrize("line", SPELLED.strip().splitlines())
def test_steps_are_read_with_the_kind_of_those_whom_they_are_about(line):
    texts, due = (half.split(" | ") for half in line.split(" => "))
    cast = cast_of(texts)
    for text, spelled in list(zip(texts, due, strict=True))[bool(cast.kinds) :]:
        assert cast.spelled(text) == (text if spelled == "-" else spelled)


@pytest.mark.parametrize("said", NELL.strip().replace("\n", " | ").split(" | "))
def test_the_text_says_what_a_name_is(said):
    cast, kind = cast_of([said, "So Nell sat down.", "She slept."]), "queen" if "Queen" in said else "mouse"
    assert (cast.kinds["nell"], cast.protagonist) == (kind, kind)
    assert cast.spelled("She slept.") == f"a {kind}: She slept."
    assert cast.spelled("Then Nell’s friend left.") == f"Then the {kind}’s friend left."


@pytest.mark.parametrize(("protagonist", "text", "title"), ABOUT)
def test_whom_a_text_is_about(protagonist, text, title):
    assert cast_of(text.split(" | "), title).protagonist == protagonist


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
            met = [f"Here the {one} met the {other}.", f"Then the {one} and the {other} danced."]
            met.append(f"A {last} slept.")
            assert cast_of(met).protagonist == being(last)


def test_forms_names_and_sentences():
    cast = Cast("mouse", {"nell": "mouse"})
    assert cast.spelled("The mice ran.") == "The mice ran."
    assert cast.spelled("Nell, the brave mouse, ran.") == "the brave mouse, ran."
    assert names_of(["We saw a rose.", "Then Rose is a colour."]) == []
    assert sentences("The fox ran home. Oh no! It was late.") == ["The fox ran home.", "It was late."]
    assert sentences("The fox ran home. Oh no!") == sentences("") == []


@pytest.mark.slow
def test_long_texts_take_time_in_proportion():
    """Thousands of names once took a pass over the text each."""
    names = ("".join(f"{'bdfgklmnprst'[(n // 12**p) % 12]}a" for p in range(4)) for n in range(5_000))
    began = time.process_time()
    cast = cast_of([f"So {name.capitalize()} met Karl the bear. It was late." for name in names])
    assert (cast.protagonist, cast.kinds) == ("bear", {"karl": "bear"})
    assert time.process_time() - began < 30  # a pass a name takes many minutes
