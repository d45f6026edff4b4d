"""The table of words: roles of headings, markers of steps, bylines, labels of pages."""

import pytest

from limner.text.words import author_in, is_closing, is_furniture, lead_in, marker_of, markers_in, role_of


@pytest.mark.parametrize(
    ("heading", "role"),
    [
        ("Ingredients", "supplies"),
        ("🛒 Ingredients (serves 4):", "supplies"),
        ("Zutaten für den Teig", "supplies"),
        ("材料(2人分)", "supplies"),
        ("材料と道具", "supplies"),
        ("Materials and tools", "supplies"),
        ("What you’ll need", "supplies"),
        ("👩‍🍳 Method", "method"),
        ("Procedimento", "method"),
        ("做法", "method"),
        ("طريقة التحضير", "method"),
        ("Cook's notes", "aside"),
        ("Häufige Fragen", "aside"),
        ("Remove the tools", None),
        ("Notes on bees", None),
        ("He took his tools.", None),
        ("Time", None),
        ("Method " + "x" * 60, None),
    ],
)
def test_a_heading_names_a_role_only_if_it_is_role_words(heading, role):
    assert role_of(heading) == role


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("Materials: a white shirt, dye", "supplies"),
        ("Matériel : un pot plus grand", "supplies"),
        ("Serves: 4", "aside"),
        ("Tipp: Dazu passt Eis.", "aside"),
        ("Ingredients:", None),
        ("She said: go home", None),
    ],
)
def test_a_paragraph_may_begin_with_its_role(text, role):
    assert lead_in(text) == role


@pytest.mark.parametrize(
    ("text", "number", "rest", "worded"),
    [
        ("Step 3: Bake.", 3, "Bake.", True),
        ("Étape 1 : Arrosez", 1, "Arrosez", True),
        ("第一步：和面", 1, "和面", True),
        ("Page 12", 12, "", True),
        ("(1) Fill the bag", 1, "Fill the bag", False),
        ("2、打散", 2, "打散", False),
        ("1️⃣ Fold a sheet", 1, "Fold a sheet", False),
        ("② Boil", 2, "Boil", False),
        ("10) Serve", 10, "Serve", False),
    ],
)
def test_markers_of_steps(text, number, rest, worded):
    marker = marker_of(text)
    assert (marker.number, marker.rest, marker.worded) == (number, rest, worded)


@pytest.mark.parametrize("text", ["2.5 kg of flour", "10:30 we left", "a. Clear", "1984", "Stepping out"])
def test_what_is_no_marker(text):
    assert marker_of(text) is None


def test_numbers_count_in_sequence_only():
    texts = ["1984. It was bright.", "1. Mix.", "and stir", "2. Bake.", "7. Odd.", "1. Alone."]
    assert list(markers_in(texts)) == [1, 3]


def test_bylines_labels_and_leave_taking():
    assert author_in("Written by Tola Eke") == "Tola Eke"
    assert author_in("von Anna Maria Huber") == "Anna Maria Huber"
    assert author_in("By the river he sat.") == ""
    assert is_furniture("Print Pin Rate")
    assert is_furniture("Jump to Recipe")
    assert not is_furniture("Print the pattern twice")
    assert is_closing("¡Buen provecho!")
    assert not is_closing("Enjoy the silence of the woods")
