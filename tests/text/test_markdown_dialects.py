"""What GitHub, Obsidian, MDX and others add to Markdown is read as what it is: no step, and not lost."""

import pytest

from limner.text.read import parse_story_report

SIDE = "The first step.\n\n{}\n\nThe last step.\n"


def read(text, by=None):
    return parse_story_report(text, format="markdown", by=by)


def steps_of(reading):
    return [step.text for step in reading.story.steps]


@pytest.mark.parametrize("by", [None, "paragraph", "sentence"])
@pytest.mark.parametrize(
    ("source", "reason", "words"),
    [
        ("[^1]: A note.\n    It goes on.", "footnote", ["[1] A note. It goes on."]),
        ("> [!NOTE]\n> Mind it.", "callout", ["Note: Mind it."]),
        ("> [!tip]+ Of mine\n> Mind it.\n>\n> Twice.", "callout", ["Tip: Of mine Mind it.", "Twice."]),
        ("::: warning\nMind it.\n:::", "callout", ["Warning", "Mind it."]),
        (":::tip[Of mine]\n\nMind it.\n\n:::", "callout", ["Of mine", "Mind it."]),
        ("::: {.callout-note}\nMind it.\n:::", "callout", ["Note", "Mind it."]),
        ('!!! note "Of mine"\n    Mind it.', "callout", ["Of mine", "Mind it."]),
        ("%% for editors %%", "code of the page", []),
        ("![[Another note#Its part]]", "code of the page", []),
        ("- [ ] flour\n- [x] eggs", "task list", ["☐ flour", "☑ eggs"]),
        ("import A from './a'", "code of the page", []),
        ("export const meta = {\n\n  a: 1,\n\n}", "code of the page", []),
        ("<Video src={v} onClick={() => { go('x > y') }} />", "code of the page", []),
        ("<Video src='v.mp4' />", "", []),
        ("{/* for editors */}", "code of the page", []),
        ('{{< figure src="q.jpg" >}}', "code of the page", []),
        ("{% include note.html %}", "code of the page", []),
        ("<!-- for\n\neditors -->", "", []),
        ("[ref]: https://example.org", "", []),
        ("$$\na_1 * b\n\n- c\n$$", "formula", ["$$\na_1 * b\n\n- c\n$$"]),
        ("\\[ x \\]", "formula", ["\\[ x \\]"]),
        ("\\begin{align*}\nx\n\\end{align*}", "formula", ["\\begin{align*}\nx\n\\end{align*}"]),
        (":::details Of mine\n:::", "title of a container", ["Of mine"]),
        ("<details><summary>Of mine</summary></details>", "summary of details", ["Of mine"]),
        ('=== "Linux"\n', "title of a tab", ["Linux"]),
        ("{% highlight c %}\nx\n\n- y\n{% endhighlight %}", "code of the page", []),
        ("{: .note }", "code of the page", []),
        ("* TOC\n{:toc}", "code of the page", []),
        ("[[_TOC_]]", "code of the page", []),
        (":::row:::", "code of the page", []),
        ("*[HTML]: Its name", "abbreviation", ["[HTML] Its name"]),
    ],
    ids=[
        *("footnote", "callout", "titled", "container", "Docusaurus", "Quarto", "MkDocs", "Obsidian comment"),
        *("embedded note", "tasks", "import", "export", "component", "html", "comment"),
        *("hugo", "liquid", "html-comment", "reference", "formula", "brackets", "TeX", "details", "summary"),
        *("tab", "highlight", "kramdown", "contents", "GitLab", "Learn", "abbreviation"),
    ],
)
def test_what_stands_beside_the_text_is_no_step(source, reason, words, by):
    reading = read(SIDE.format(source), by)
    assert steps_of(reading) == ["The first step.", "The last step."]
    assert {item.reason for item in reading.left_out} == ({reason} if reason else set())
    assert [part.text for part in reading.story.between] == words
    if reason == "code of the page":
        assert reading.left_out[-1].text == source.removeprefix("* ")


def test_a_container_that_only_groups_or_is_not_closed_leaves_its_steps():
    text = "::: {.column}\n\nThe first step.\n\n:::\n\n::: warning\n\nThe last step.\n"
    assert steps_of(read(text)) == ["The first step.", "Warning", "The last step."]


def test_a_callout_and_tasks_of_a_headed_step_are_part_of_it():
    text = "## Cut\n\nCut it.\n\n> [!WARNING]\n> Sharp.\n\n## Glue\n\n- [ ] wood\n- [ ] glue\n"
    assert steps_of(read(text)) == ["Cut it.\n\nWarning: Sharp.", "☐ wood\n☐ glue".replace("☐", "- ☐")]


@pytest.mark.parametrize(
    "words",
    [
        "{{< note >}}\nMind it.\n{{< /note >}}",
        "{% raw %}\n\nMind it.\n\n{% endraw %}",
        "Mind it.\n{: .lead }",
        "::: tab Linux\nMind it.\n:::",
        ":::{card} Linux\n:class: x\n\nMind it.\n:::",
    ],
    ids=["hugo", "liquid", "kramdown", "container", "MyST"],
)
def test_what_stands_around_words_leaves_the_words(words):
    assert steps_of(read(SIDE.format(words))) == ["The first step.", "Mind it.", "The last step."]


@pytest.mark.parametrize(
    ("source", "alt", "caption"),
    [
        ("![At sea](a.jpg){#fig width=50%}", "At sea", ""),
        ('![At sea](a.jpg){: width="50"}', "At sea", ""),
        (':::image type="content" source="a.jpg" alt-text="At [sea]":::', "At [sea]", ""),
        (":::{figure} a.jpg\n:width: 50%\n\nAt sea\n:::", "At sea", "At sea"),
    ],
    ids=["pandoc", "kramdown", "Learn", "MyST"],
)
def test_pictures_of_other_dialects(source, alt, caption):
    story = read(SIDE.format(source)).story
    assert [step.text for step in story.steps] == ["The first step.", "The last step."]
    ((picture,),) = (step.pictures for step in story.steps if step.pictures)
    assert (picture.target, picture.alt, picture.caption) == ("a.jpg", alt, caption)


def test_a_sign_that_begins_no_formula_is_words():
    assert steps_of(read("$$ is dear.\n\n\\[ is open.\n")) == ["$$ is dear.", "[ is open."]


@pytest.mark.parametrize(
    "text", ["> [!NOTE]\n> Mind it.", "- [ ] one", "[^1]: A note.", "# T\n\n> [!TIP]\n> x"]
)
def test_the_only_words_of_a_text_are_its_steps(text):
    assert len(read(text).story.steps) == 1


def test_pictures_and_links_of_obsidian():
    links = "![[b.PNG|At the lake|100x200]] [[Other page]] [[x|words]] [[1]](u) [[r]]\n\n[r]: /y\n"
    first, second = read(f"One. ^block-1\n\n![[a b.jpg|300]]\n\n{links}").story.steps
    assert [(one.target, one.alt) for one in first.pictures] == [("a b.jpg", "")]
    assert [(one.target, one.alt) for one in second.pictures] == [("b.PNG", "At the lake")]
    assert first.text == "One."
    assert second.text == "Other page words [1] [r]"
    assert [mark.target for mark in second.parts[0].marks] == ["Other page", "x", "u", "/y"]


def test_pictures_inside_code_are_none():
    source = "Write it so:\n\n```\n![a](a.jpg)\n```\n\nOr as `![b](b.jpg)`.\n\n    ![c](c.jpg)\n"
    assert [step.pictures for step in read(source).story.steps if step.pictures] == []


def test_components_around_words_leave_the_words():
    tabs = "<Tabs items={['a']}>\n\nIn a tab.\n\n</Tabs>\n\n"
    picture = "<Image src='a.jpg' alt='x' width={300} />\n"
    first, second = read(f"{tabs}A <Badge>new</Badge> thing.\n\n{picture}").story.steps
    assert (first.text, second.text) == ("In a tab.", "A new thing.")
    assert [one.target for one in second.pictures] == ["a.jpg"]


def test_pictures_in_html_bring_their_captions():
    figure = '<figure>\n<img src="b.jpg">\n<figcaption>At the lake</figcaption>\n</figure>'
    reading = read(f"We walked.\n\n{figure}\n\nWe swam.\n")
    assert steps_of(reading) == ["We walked.", "We swam."]
    assert [(one.target, one.alt) for one in reading.story.steps[0].pictures] == [("b.jpg", "At the lake")]


def test_an_anchor_of_a_heading_is_no_word_and_a_mark_of_a_footnote_is_raised():
    story = read("# Oven {#oven .big}\n\nBake it[^n].\n\n[^n]: Hot.\n").story
    assert story.title == "Oven"
    (mark,) = story.steps[0].parts[0].marks
    assert (story.steps[0].text[mark.start : mark.end], mark.kind) == ("[n]", "above")


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ('+++\ntitle = "A day"\n\n', "A day"),
        ("+++\n\n", ""),
        ("+++\nbroken = \n\n", ""),
        ("+++\n+++\n", ""),
        ("---\ntitle: A day\ntags:\n- a\n\n", "A day"),
        ('{"title": "A day"}\n', "A day"),
        ('{\n"title": "A day", "more": {\n}\n}\n', "A day"),
    ],
    ids=["toml-open", "mark-alone", "broken", "empty", "yaml-open", "json-line", "json-nested"],
)
def test_front_matter_is_no_step_whether_it_is_closed_or_not(front, title):
    reading = read(f"{front}A fox.\n\nA hare.\n")
    assert (reading.story.title, steps_of(reading)) == (title, ["A fox.", "A hare."])


def test_every_step_knows_its_lines():
    text = "---\na: 1\n---\nIntro\nof two.\n\n<p>One</p>\n<p>Two</p>\n\n- code\n  more\n"
    assert [step.lines for step in read(text).story.steps] == [(3, 5), (6, 8), (6, 8), (9, 11)]
