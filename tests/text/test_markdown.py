"""Markdown as people write it: dialects are furniture, asides or words, and every block knows its lines."""

import pytest
from block_notation import marked, notation

from limner.errors import DataError
from limner.text.markdown import read_markdown
from limner.text.picture_files import finder


def read(text):
    return read_markdown(text, "text.md", finder(None))


def blocks(text):
    return notation(read(text).blocks)


def left_out(text):
    return [part.text for part in read(text).left_out]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("> [!tip]+ Of mine\n> Mind it.\n>\n> Twice.", ["(aside) > Of mine: Mind it.", "(aside) > Twice."]),
        ("> [!NOTE]\n> Mind it.", ["(aside) > Note: Mind it."]),
        (":::tip[Of mine]\n\nMind it.\n\n:::", ["(aside) Of mine", "(aside) Mind it."]),
        ('::: {.callout-note title="Of mine"}\nMind it.\n:::', ["(aside) Of mine", "(aside) Mind it."]),
        ("::: warning\nMind it.\n:::", ["(aside) Warning", "(aside) Mind it."]),
        ("::: warning\nnever closed", ["never closed"]),
        ("::: {.column}\nIn a column.\n:::", ["In a column."]),
        ('!!! note "Of mine"\n    Mind it.', ["(aside) Of mine", "(aside) Mind it."]),
        ("{{% notice tip %}}\nMind it.\n{{% /notice %}}", ["(aside) Notice", "(aside) Mind it."]),
        ("<aside>\n💡 Mind it.\n\n</aside>", ["(aside) 💡 Mind it."]),
        ("Oak[^1].\n\n[^1]: Or elm.\n    Or ash.", ["Oak[1].", "(aside) [1] Or elm. Or ash."]),
        ("- [ ] flour\n- [x] eggs", ["- ☐ flour", "- ☑ eggs"]),
        ("See [[Page#Part|the page]], [[Other]] and [[1]](u).", ["See the page, Other and [1]."]),
        ("A ==marked== word, a == b == c.", ["A marked word, a == b == c."]),
        ("Named. ^block-1", ["Named."]),
        ("# Oven {#oven .big}\n\nBake.\n{: .lead }", ["# Oven", "Bake."]),
        ('see [the inn]({{< ref "inn.md" >}})', ["see the inn"]),
        ("{% highlight c %}\nx\n\n- y\n{% endhighlight %}", ["{x ⏎  ⏎ - y}"]),
        ("- a\n\n  b\n  - c\n1. d\n   > e", ["- a", "| b", "   - c", "1. d", "> | e"]),
    ],
)
def test_dialects_become_words_and_asides(source, expected):
    assert blocks(source) == expected


FURNITURE = (
    "%% for\n\neditors %%",
    "![[Another note#Its part]]",
    "#cake #summer/fruit",
    "[[_TOC_]]",
    "* TOC\n{:toc}",
    "{{< youtube w7Ft >}}",
    "{% comment %}for editors{% endcomment %}",
)


def test_code_of_a_page_is_furniture():
    for source in FURNITURE:
        assert blocks(f"One.\n\n{source}\n\nTwo.") == ["One.", "Two."]
        assert left_out(f"One.\n\n{source}\n\nTwo.") == [source]


def test_properties_of_notion_are_furniture_and_those_of_a_recipe_are_not():
    text = "# Trip\n\n{}\n\nWe left.\n"
    assert left_out(text.format("Created: May 1\nTags: Travel")) == ["Created: May 1\nTags: Travel"]
    assert left_out(text.format("Serves: 4\nTime: 20 minutes")) == []


def test_dialects_inside_code_are_code():
    fence = "```\n[[a]] ==b== {{< c >}}\n%% d %%\n```"
    assert blocks(f"{fence}\n\nWrite `[[a]]`, \\[[b]] and `==c==`.\n\n    #tag") == [
        "{[[a]] ==b== {{< c >}} ⏎ %% d %%}",
        "Write [[a]], [[b]] and ==c==.",
        "{#tag}",
    ]


@pytest.mark.parametrize(
    ("source", "alt", "caption"),
    [
        ("![At sea](a.jpg){#fig width=50%}", "At sea", ""),
        ("![At sea](a.jpg)\n*By boat*", "At sea", "By boat"),
        ("![At sea|300](a.jpg)", "At sea", ""),
        ("![Untitled 1](a.jpg)", "", ""),
        ("![[a.jpg|300]]", "", ""),
        ("![[a.jpg|At sea|100x200]]", "At sea", ""),
        ('{{< figure src="a.jpg" alt="At sea" caption="By boat" >}}', "At sea", "By boat"),
        ('{% include figure.html url="a.jpg" title="By boat" %}', "", "By boat"),
        ('<figure><img src="a.jpg"><figcaption>By boat</figcaption></figure>', "", "By boat"),
        ("![At sea][sea]\n\n[sea]: a.jpg", "At sea", ""),
    ],
)
def test_pictures_of_all_dialects(source, alt, caption):
    shown = [picture for block in read(f"One.\n\n{source}\n\nTwo.").blocks for picture in block.pictures]
    assert [(ref.target, ref.alt, ref.caption) for ref in shown] == [("a.jpg", alt, caption)]


def test_pictures_on_lines_of_their_own_stand_between_the_words():
    text = "1. Fold.\n   ![a](a.jpg)\n   ![b](b.jpg)\n   Turn.\n2. Cut ![c](c.jpg) it."
    assert blocks(text) == ["1. Fold.", "| [a.jpg]", "| [b.jpg]", "| Turn.", "2. Cut it. [c.jpg]"]


def test_lines_below_a_role_word_are_blocks_with_lines_of_their_own():
    document = read("**Ingredients**\n3 eggs\n1 lemon\n\nSteps:\nMix well.  \nBake it\\\nin tins.")
    lines = ["3 eggs", "1 lemon", "Steps:", "Mix well.", "Bake it", "in tins."]
    assert notation(document.blocks) == ["Ingredients", *lines]
    assert [block.lines for block in document.blocks] == [(n, n + 1) for n in (0, 1, 2, 4, 5, 6, 7)]


def test_other_line_breaks_are_spaces_unless_they_are_hard():
    lines = (
        "Mix the flour with the water until the\ndough is smooth, and leave it for an\nhour below a cloth."
    )
    assert blocks(f"**Method**\n{lines}") == ["Method", lines.replace("\n", " ")]
    assert blocks("Roses are\nred,  \nviolets are\\\nblue.") == ["Roses are red, ⏎ violets are ⏎ blue."]


FRONTS = {
    "---\ntitle: Soup\nauthors:\n  - Ana\n  - Bo\nlang: de\n---\n": ("Soup", "Ana, Bo", "de"),
    '+++\ntitle = "Soup"\n[params]\nx = 1\n+++\n': ("Soup", "", ""),
    "---\ntitle: Soup: the best\nauthor: Ana\n...\n": ("Soup: the best", "Ana", ""),
    "---\ntitle: &a Soup\nauthor: *a\n---\n": ("&a Soup", "*a", ""),
    "---\n---\n": ("", "", ""),
}


@pytest.mark.parametrize(("front", "expected"), FRONTS.items())
def test_front_matter_states_title_author_and_language(front, expected):
    document = read(f"{front}One.\n")
    assert (document.title, document.author, document.language) == expected
    start = front.count("\n")
    assert [(block.text, block.lines) for block in document.blocks] == [("One.", (start, start + 1))]


def test_text_between_two_rules_is_no_front_matter():
    assert blocks("---\n\nOtto had two socks.\n\n---\n\nHe lost one.") == [
        "---", "Otto had two socks.", "---", "He lost one.",
    ]  # fmt: skip


def test_ingredients_and_directions_of_front_matter_are_sections_below_the_text():
    text = (
        "---\ningredients: [2 eggs, {amount: 1, unit: cup milk}]\ndirections:\n  - Mix.\n  - Bake.\n"
        "image: cake.jpg\n---\nA cake.\n"
    )
    document = read(text)
    assert notation(document.blocks[:3]) == ["A cake.", "## Ingredients", "- 2 eggs"]
    assert notation(document.blocks[3:]) == ["- 1 cup milk", "## Directions", "1. Mix.", "2. Bake."]
    assert [block.lines for block in document.blocks[1:]] == [None] * 6
    assert document.cover is not None
    assert document.cover.target == "cake.jpg"
    assert document.left_out == []


def test_every_block_knows_its_lines():
    text = "---\na: 1\n---\nIntro\nof two.\n\n<p>One</p>\n<p>Two</p>\n\n- code\n\n      more\n\n> a\n> - b\n"
    assert [(block.text, block.lines) for block in read(text).blocks] == [
        ("Intro of two.", (3, 5)),
        ("One", (6, 8)),
        ("Two", (6, 8)),
        ("code", (9, 10)),
        ("more", (11, 12)),
        ("a", (13, 14)),
        ("b", (14, 15)),
    ]


def test_marks_and_addresses_are_as_written():
    (block,) = read("A **b** *c* ~~d~~ `e` [f](<g h>) x[^1].\n\n[^1]: y").blocks[:1]
    assert marked(block) == [
        ("b", "strong"), ("c", "emphasis"), ("d", "struck"), ("e", "code"), ("f", "g h"), ("[1]", "above"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["> " * 70 + "a", "*a " * 101_000, "a\n" * 80_001])
def test_what_the_parser_would_not_read_is_refused_in_a_line(text):
    with pytest.raises(DataError, match=r"text\.md: .+; (?:flatten|read) it"):
        read(text)
