import numpy as np
import pytest

from limner.records import Block, Step, Story
from limner.text.dates import Date, Said, said_by, said_in

MAY_14 = Date(514, 514)


@pytest.mark.parametrize(
    ("text", "code", "due"),
    [
        ("We left on 14 May 2024.", "en", [Date(514, 514, 2024)]),
        ("On May 14th we left.", "en", [MAY_14]),
        ("Left: 2024-05-14", "en", [Date(514, 514, 2024)]),
        ("5/14/2024", "en", [Date(514, 514, 2024)]),
        ("14/5/2024", "en", [Date(514, 514, 2024)]),
        ("5/6/2024", "fr", [Date(605, 605, 2024)]),
        ("5/6/2024", "en", []),  # either
        ("Le 14 mai, nous sommes partis.", "fr", [MAY_14]),
        ("Le 1er mai", "fr", [Date(501, 501)]),
        ("El 14 de mayo de 2024 salimos.", "es", [Date(514, 514, 2024)]),
        ("Il 14 maggio siamo partiti.", "it", [MAY_14]),
        ("Am 14.5. fuhren wir los.", "de", [MAY_14]),
        ("Dienstag, 14. Mai", "de", [MAY_14]),
        ("am 14.05.2024", "de", [Date(514, 514, 2024)]),
        ("14 мая 2024 года", "ru", [Date(514, 514, 2024)]),
        ("2024年5月14日", "ja", [Date(514, 514, 2024)]),
        ("14 พฤษภาคม 2567", "th", [Date(514, 514, 2024)]),
        ("from 28 May to 3 June 2024", "en", [Date(528, 603, 2024)]),
        ("14–16 May", "en", [Date(514, 516)]),
        ("December 28 to January 3", "en", [Date(1228, 103)]),
        ("du 28 décembre au 3 janvier 2025", "fr", [Date(1228, 103, 2025)]),
        ("vom 14.5. bis 16.5.", "de", [Date(514, 516)]),
        ("On 14 May and on 20 May", "en", [MAY_14, Date(520, 520)]),
        ("In May we left.", "en", [Date(501, 531)]),
        ("In May 2024 we left for 14 May.", "en", [MAY_14]),  # the day alone counts
        ("In 2024, all was well.", "en", [Date(year=2024)]),
        ("On Tuesday we rested.", "en", [Date(weekday=2)]),
        ("Day 3: we rested", "en", [Date(nth=3)]),
    ],
)
def test_dates_of_a_sentence(text, code, due):
    assert said_by(text, code).dates == tuple(due)


@pytest.mark.parametrize(
    ("heading", "code", "due"),
    [
        ("Tuesday", "en", Said((Date(weekday=2),))),
        ("May", "en", Said((Date(501, 531),))),
        ("2024", "en", Said((Date(year=2024),))),
        ("Day 3 – Siena", "en", Said((Date(nth=3),), ("siena",))),
        ("Tuesday, 14 May: Siena & Pisa", "en", Said((MAY_14,), ("siena", "pisa"))),
        ("14.5.", "de", Said((MAY_14,))),
        ("A weekend in Rome", "en", Said((), ("rome",))),
    ],
)
def test_what_a_heading_says(heading, code, due):
    assert said_by(heading, code, heading=True) == due


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("May I have the next dance?", "en"),
        ("They marched in March order.", "en"),
        ("She goes to school on Sunday school days.", "en"),
        ("In March 12 people came.", "en"),
        ("Step 3.5. Stir well.", "en"),
        ("Schritt 3.5. Gut rühren.", "de"),
        ("3.5. Zutaten", "de"),
        ("Das kostet 14.50 und danach 3.5. Mal mehr.", "de"),
        ("It costs $14.05 or 14.05 euros.", "en"),
        ("We won 3:2 and lost 14-5.", "en"),
        ("Chapters 16–14 May be left out.", "en"),
        ("Add 1/2 cup and 5/14 of the rest.", "en"),
        ("Climb in 2024 metres.", "en"),
        ("En 2024 mètres de dénivelé.", "fr"),
        ("The march of 5 brave men in 12 days.", "en"),
        ("Nous étions en mer; 5 maisons.", "fr"),
        ("Estamos en mar abierto.", "es"),
        ("Call 2024-13-45 or 030/14.5.", "en"),
        ("On 31/14/2024 nothing happens.", "en"),
        ("Augustus and April laughed; June sat beside them.", "en"),
    ],
)
def test_sentences_that_name_no_date(text, code):
    assert said_by(text, code).dates == ()


@pytest.mark.parametrize(
    ("text", "code", "due"),
    [
        ("We took the bus to Siena.", "en", {"siena"}),
        ("From Siena to San Gimignano, near Volterra", "en", {"siena", "san gimignano", "volterra"}),
        ("in Siena, Pisa and Rome", "en", {"siena", "pisa", "rome"}),
        ("Wir fuhren nach Frankfurt am Main.", "de", {"frankfurt am main", "frankfurt"}),
        ("Nous partons d'Avignon à L'Aquila.", "fr", {"avignon", "l'aquila"}),
        ("in São Paulo's streets", "en", {"sao paulo"}),
        ("Paris Hilton waved to Paris Hilton.", "en", {"paris hilton"}),  # which is no place
        ("Reading is a nice hobby. Split the peas and eat turkey in nice company.", "en", set()),
        ("Zum Essen gab es Split und Turkey.", "de", set()),
        ("Siena waved.", "en", set()),
    ],
)
def test_names_where_a_place_would_stand(text, code, due):
    assert set(said_by(text, code).names) == due


def test_a_heading_holds_until_the_next_that_says_any():
    story = Story(
        id="x",
        title="Our 2024",
        steps=[
            Step(text="We came.", run=(2, 3)),
            Step(text="We ate.", run=(4, 5)),
            Step(text="x", run=(6, 7)),
        ],
        blocks=[
            Block(kind="heading", level=1, text="In 2024"),
            Block(kind="heading", level=2, text="Siena, 14 May"),
            Block(text="We came."),
            Block(kind="heading", level=3, text="Food"),
            Block(text="On 15 May we ate."),
            Block(kind="heading", level=2, text="Pisa"),
            Block(text="We fell."),
        ],
    )
    first, second, third = said_in(story, ["en"] * 3)
    assert [one.dates for one in first if one.dates] == [(Date(514, 514, 2024),), (Date(year=2024),)]
    assert next(one.dates for one in second if one.dates) == (Date(515, 515, 2024),)
    assert [one.names for one in third if one.names] == [("pisa",)]
    assert next(one.dates for one in third if one.dates) == (Date(year=2024),)


def test_front_matter_names_a_day_and_a_place():
    markdown = "---\ntitle: x\ndate: 2024-05-14\nlocation: Siena\n---\n\nWe came on 15 May.\n\nWe went.\n"
    story = Story(id="x", steps=[Step(text="We came on 15 May."), Step(text="We went.")], markdown=markdown)
    first, second = said_in(story, ["en", "en"])
    assert first[0].dates == (Date(515, 515, 2024),)
    assert [one for one in second if one != Said()] == [Said((Date(514, 514, 2024),), ("siena",))]


@pytest.mark.parametrize(
    ("date", "due"),
    [
        (MAY_14, [20240514, 20230514]),
        (Date(514, 514, 2024), [20240514]),
        (Date(weekday=2), [20240514]),
        (Date(1228, 103), [20231231]),
        (Date(year=2023), [20230514, 20231231]),
        (Date(nth=1), []),
    ],
)
def test_days_that_a_date_names(date, due):
    days = np.array([0, 20240514, 20230514, 20231231, 20240516])
    assert days[date.holds(days)].tolist() == due
