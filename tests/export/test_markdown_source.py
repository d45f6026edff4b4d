"""Markdown comes out as it went in: the author's source with pictures put in, and nothing else changed."""

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from limner.errors import LimnerError
from limner.export import Plan, export
from limner.export.markdown import revised_source
from limner.records import Board, BoardStep, Candidate, PictureRef
from limner.text.document import allow_any_file
from limner.text.markdown import with_inserted, without_inserted
from limner.text.read import parse_story_report, read_story_report
from limner.text.revise import StoryRevision

FRONTS = [
    "",
    "---\ntitle: A day\ntags: [a, b]\n---\n",
    '+++\ntitle = "A day"\n[params]\nx = 1\n+++\n',
    '{\n  "title": "A day", "x": {"y": 1}\n}\n',
    '+++\ntitle = "never closed"\n\n',
    "\ufeff# Title {#top}\n\n",
]
BLOCKS = [
    "Words of one paragraph,\nwhich goes on  \nhere.",
    "A [link](https://example.org 'its title') and `code` and a note[^1].",
    '![own](own.jpg "A title")',
    "[![badge](https://img.example/b.svg)](https://ci.example)",
    "## Heading {#anchor}",
    "Setext\n------",
    "# Title\nwords right below\n## Next\n- item right below",
    "```python title='x'\nprint('![no](x_pictures/01-a-00000000.jpg)')\n```",
    "~~~\ncode\n~~~\nwords right below",
    "    indented code",
    "- one\n- two\n  - inner\n\n    more of inner\n- three",
    "1. Mix\n2. Bake\n   ```\n   x\n   ```\n3. Eat\nlazily",
    "7) seven\n\n   > quoted in it\n\n8) eight",
    "- [ ] flour\n- [x] eggs",
    "> quoted\n>\n> twice\n\n> > deeper\nlazily",
    "> [!NOTE]\n> Take care.",
    ":::tip[A title]\n\nTake care.\n\n:::",
    "::: {.column}\nIn a column.\n:::\nright below",
    "::: warning\nnever closed",
    '!!! note "A title"\n    Take care.\n\n    - of this\nright below',
    "%% a comment %%\n\nNamed. ^block-1\n\n![[Another note]]",
    "<Image src='own.jpg' width={300} />",
    "> - item\n>   goes on\n> - next",
    "| a | b |\n|:--|--:|\n| 1 | 2 |",
    "[^1]: The note\n    goes on.",
    "[ref]: https://example.org",
    "<!-- a comment -->\nwords right below",
    "<!-- over\n\nlines -->",
    "![[a.jpg|300]] and [[Some page|words]]",
    "import X from './x'\nexport const a = {\n\n  b: 1,\n}",
    "<Tabs items={['a']}>\n\nInside a component.\n\n</Tabs>",
    "<Video src='x.mp4' />",
    "{{< figure src='q.jpg' >}}",
    "{{< note >}}\nMind it.\n{{< /note >}}",
    "$$\na * b\n- c\n$$",
    ":::details A title\nIn it.\n:::",
    "Of a class.\n{: .lead }",
    "![own](own.jpg){width=50%}",
    '<figure><img src="b.jpg"><figcaption>At the lake</figcaption></figure>',
    "<details>\n<summary>More</summary>\n\nHidden words.\n\n</details>",
    "***",
    "\tTab code\n\n-\ttab item\n\n\tgoes on",
    "-\n  begins empty\n- > 1. nested\n  >    goes on",
    "Poem\\\nline *two*\n* * *\nafter a break",
    "第一步。\n\nالسلحفاة",
]
DOCUMENTS = st.builds(
    lambda front, blocks, gap, newline, end: (front + gap.join(blocks) + end).replace("\n", newline),
    st.sampled_from(FRONTS),
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=6),
    st.sampled_from(["\n\n", "\n\n\n", "\n \n", "\n"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\n", "\n\n"]),
)
PICTURE = "![A dog\\]](out_pictures/{:02d}-dog-0123abcd.jpg)"


def lines_of(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def said(text: str) -> tuple[str, int]:
    """Words that a reader sees, and pictures that were put in."""
    soup = BeautifulSoup(MarkdownIt("commonmark").enable("table").render(text), "lxml")
    ours = [image for image in soup.find_all("img") if "out_pictures/" in image["src"]]
    return "".join(soup.get_text().split()), len(ours)


def check_only_added(source: str, made: str) -> None:
    rest = iter(lines_of(made))
    assert all(line in rest for line in lines_of(source) if line)


@pytest.mark.slow
@settings(deadline=None)
@given(DOCUMENTS, st.sampled_from([None, "paragraph", "heading"]), st.integers(1, 2), st.booleans())
def test_any_document_comes_out_with_additions_only(document, by, count, captioned):
    try:
        story = parse_story_report(document, format="markdown", by=by).story
    except LimnerError:  # no words, or no heading
        return
    assert story.markdown == document
    assert all(step.lines for step in story.steps)
    caption = "\n*Ana \\* Lima*" if captioned else ""
    pictures = [
        (step.lines, PICTURE.format(place * count + one) + caption)
        for place, step in enumerate(story.steps)
        for one in range(count)
    ]
    made = with_inserted(story.markdown, pictures, "text")
    check_only_added(document, made)
    words, seen = said(made)
    assert seen == len(pictures)
    assert captioned or words == said(document)[0]
    again = parse_story_report(made, format="markdown", by=by).story
    assert [(one.title, one.text, one.pictures) for one in again.steps] == [
        (one.title, one.text, one.pictures) for one in story.steps
    ]
    steps = [step for step in again.steps for _ in range(count)]
    same = [(step.lines, one) for step, (_, one) in zip(steps, pictures, strict=True)]
    assert with_inserted(again.markdown, same, "text") == made
    assert without_inserted(made, "text") == (again.markdown, len(pictures))


def test_a_picture_of_a_tab_stands_in_it() -> None:
    source = '=== "A"\n\n    One.\n\n    - Two.\n\n=== "B"\n\n    Three.\n\nFour.\n'
    story = parse_story_report(source, format="markdown").story
    assert [step.text for step in story.steps] == ["One.", "- Two.", "Three.", "Four."]
    made = with_inserted(source, [(step.lines, "![x](y)") for step in story.steps], "text")
    shown = [len(line) - len(line.lstrip()) for line in made.split("\n") if line.lstrip().startswith("![x]")]
    assert shown == [4, 6, 4, 0]
    check_only_added(source, made)


def test_a_picture_of_an_item_stands_in_it_and_not_in_the_list_inside_it() -> None:
    source = "1. Chop:\n   - peel\n   - cut\n     1. along\n     2. across\n2. Fry.\n"
    story = parse_story_report(source, format="markdown").story
    pictures = [(step.lines, PICTURE.format(place)) for place, step in enumerate(story.steps)]
    made = lines_of(with_inserted(story.markdown, pictures, "text"))
    assert [line[: line.index("!")] for line in made if "!" in line] == ["   ", "   "]
    assert "2. Fry." in made


MANUAL = """---
title: Manual
tags: [a]
---

# Manual {#top}

<!-- for the editors -->

![own](own.jpg "The yard")

First, cut the wood[^1].

> [!NOTE]
> Mind your hands.

| a | b |
|:--|--:|
| 1 | 2 |

Then glue it.

[^1]: Oak is best.
"""


def board_of(story, pictures, names=("turned", "odd")) -> Board:
    steps = []
    for place, step in enumerate(story.steps):
        name = names[place % len(names)]
        chosen = name and Candidate(picture=pictures[name], score=1.0, channels={})
        origin = "blank" if not chosen else "given" if step.pictures else "decoded"
        steps.append(BoardStep(position=place, chosen=chosen, origin=origin))
    return Board(story=story, steps=tuple(steps))


def test_an_export_is_the_source_with_pictures_and_their_credits(pictures, tmp_path: Path) -> None:
    text = MANUAL.replace('![own](own.jpg "The yard")\n\n', "").replace("\n", "\r\n")
    (tmp_path / "manual.md").write_bytes(text.encode("utf-8-sig"))
    story = read_story_report(tmp_path / "manual.md").story
    assert [step.text for step in story.steps] == ["First, cut the wood[1].", "Then glue it."]
    done = export(board_of(story, pictures), tmp_path / "out.md")
    first, odd = (f"out_pictures/{file.name}" for file in done.pictures)
    credit = f"![A red roof]({first})\r\n*Ana Lima · CC BY 4.0*\r\n"
    made = text.replace("wood[^1].\r\n", f"wood[^1].\r\n\r\n{credit}")
    made = made.replace("glue it.\r\n", f"glue it.\r\n\r\n![An odd name]({odd})\r\n")
    assert done.path.read_bytes() == made.encode("utf-8-sig")
    assert done.warnings == ()


def test_an_export_read_again_gives_the_same_file(pictures, tmp_path: Path) -> None:
    story = parse_story_report(MANUAL, format="markdown").story
    first = export(board_of(story, pictures), tmp_path / "out.md").path.read_bytes()
    reading = read_story_report(tmp_path / "out.md")
    assert [step.pictures for step in reading.story.steps] == [
        tuple(one.model_copy(update={"problem": "is not there"}) for one in step.pictures)
        for step in story.steps
    ]
    assert any("an earlier export" in note for note in reading.notes)
    (tmp_path / "again").mkdir()
    assert export(board_of(reading.story, pictures), tmp_path / "again" / "out.md").path.read_bytes() == first


def test_an_export_of_a_text_in_another_format_read_again_gives_the_same_file(pictures, tmp_path) -> None:
    page = f"""<html lang="de"><head><meta name="author" content="Ana"></head><body><h1>Suppe</h1>
    <h2>Zubereitung</h2><ol><li>Zwiebeln auf dem Brett schälen.<ul><li>halbieren</li></ul></li><li>Braten.
    <figure><img src="{pictures["odd"].path}"><figcaption>Im Topf</figcaption></figure></li><li>Essen.</li>
    </ol></body></html>"""
    (tmp_path / "a.html").write_text(page)
    story = read_story_report(tmp_path / "a.html", file_policy=allow_any_file).story
    assert [one.caption for step in story.steps for one in step.pictures] == ["Im Topf"]
    boards = [board_of(story, pictures, ("turned", "odd", "wide"))]
    done = export(boards[0], tmp_path / "out.md")
    lines = done.path.read_text().splitlines()
    own = next(place for place, line in enumerate(lines) if "text-it-s-a" in line)
    assert lines[own + 1] == "   *Im Topf*"
    again = read_story_report(done.path).story
    assert [step.text for step in again.steps] == [step.text for step in story.steps]
    assert [one.path for step in again.steps for one in step.pictures] == [str(done.pictures[1])]
    first = done.path.read_text()
    done = export(board_of(again, pictures, ("turned", "odd", "wide")), done.path, overwrite=True)
    assert done.path.read_text() == first
    assert not any("other file" in line for line in done.warnings)


def test_the_text_s_own_picture_stays_and_is_not_shown_twice(pictures, tmp_path: Path) -> None:
    story = parse_story_report(MANUAL, format="markdown").story
    assert story.steps[0].pictures == (PictureRef(target="own.jpg", alt="own"),)
    board = board_of(story, pictures, ("turned", None, None))
    done = export(board, tmp_path / "out.md")
    assert (done.path.read_text(), done.pictures) == (MANUAL, ())
    assert [line for line in done.warnings if "own" not in line] == [
        "1 picture of the text not found from here, by the names that the text has for them;"
        " put this file beside the text, or copy them"
    ]
    chosen = board.steps[0].model_copy(update={"origin": "pinned"})
    done = export(board.model_copy(update={"steps": (chosen, *board.steps[1:])}), tmp_path / "pinned.md")
    assert len(done.pictures) == 1
    assert any("own.jpg next to the chosen one" in line for line in done.warnings)


def test_pictures_that_are_no_longer_used_are_listed_and_removed_when_replaced(
    pictures, tmp_path: Path
) -> None:
    story = parse_story_report("One fox.\n\nTwo hares.\n", format="markdown").story
    first = export(board_of(story, pictures, ("turned",)), tmp_path / "out.md")
    (tmp_path / "out_pictures" / "01-mine-00000000.jpg").write_bytes(b"mine")
    first.path.unlink()
    listed = export(board_of(story, pictures, ("odd",)), tmp_path / "out.md")
    assert first.pictures[0].name in listed.warnings[0]
    assert "--overwrite" in listed.warnings[0]
    assert first.pictures[0].exists()
    replaced = export(board_of(story, pictures, ("odd",)), tmp_path / "out.md", overwrite=True)
    assert first.pictures[0].name in replaced.warnings[0]
    assert replaced.warnings[1] == "out_pictures holds 1 other file, left as found"
    left = {file.name for file in (tmp_path / "out_pictures").iterdir()}
    assert left == {replaced.pictures[0].name, "01-mine-00000000.jpg"}


def test_pictures_stay_where_the_folder_is_reached_by_a_link(pictures, tmp_path: Path) -> None:
    story = parse_story_report("One fox.\n\nTwo hares.\n", format="markdown").story
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    export(board_of(story, pictures), tmp_path / "link" / "out.md")
    made = export(board_of(story, pictures), tmp_path / "link" / "out.md", overwrite=True)
    assert len(made.pictures) == 2
    assert all(picture.exists() for picture in made.pictures)
    assert not made.warnings


def test_a_title_that_was_changed_is_in_the_source(pictures, tmp_path: Path) -> None:
    story = parse_story_report(MANUAL, format="markdown").story.model_copy(update={"title": "A *shed*"})
    text = export(board_of(story, pictures, (None,)), tmp_path / "out.md").path.read_text()
    assert text == MANUAL.replace("title: Manual", 'title: "A *shed*"').replace("# Manual", "# A \\*shed\\*")


def test_reasons_and_steps_alone_are_written_anew(pictures, tmp_path: Path) -> None:
    story = parse_story_report(MANUAL, format="markdown").story
    for plan in (Plan(with_reasons=True), Plan(include="steps")):
        text = export(
            board_of(story, pictures), tmp_path / "out.md", plan=plan, overwrite=True
        ).path.read_text()
        assert "for the editors" not in text
        assert "Then glue it." in text


LISTED = "---\nx: [1]\n---\nIntro <!-- c -->\n\n1. Mix **all**.\n   - slowly\n2. Bake\n   it.\n3. Eat.\n"
PARAGRAPHS = "---\nx: [1]\n---\nOne *fox*.\n\n<!-- c -->\n\n> Two\n> foxes.\n\nThree.\n"


@pytest.mark.parametrize("text", [LISTED, PARAGRAPHS], ids=["list", "paragraphs"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda revision: revision.reword(1, "Other words."),
        lambda revision: revision.split(1, 4),
        lambda revision: revision.insert(0, "New one."),
        lambda revision: revision.insert(2, "New one.", after=True),
        lambda revision: revision.remove(1),
        lambda revision: revision.move(0, 2),
        lambda revision: revision.move(2, 0),
    ],
    ids=["reword", "split", "first", "last", "remove", "down", "up"],
)
def test_a_step_that_was_edited_changes_its_own_lines_alone(text: str, edit) -> None:
    revision = StoryRevision(parse_story_report(text, format="markdown").story)
    edit(revision)
    made = revised_source(revision)
    found = parse_story_report(made, format="markdown").story
    assert [step.text for step in found.steps] == [step.text for step in revision.story.steps]
    touched = {line for step in revision.before.steps for line in text.split("\n")[slice(*step.lines)]}
    rest = iter(made.split("\n"))
    assert all(line in rest for line in text.split("\n") if line and line not in touched)


def test_a_text_of_another_format_has_no_source() -> None:
    story = parse_story_report("One fox.\n\nTwo.", format="plain").story
    assert story.markdown == ""
    assert revised_source(StoryRevision(story)) is None


def test_a_picture_above_markup_of_a_template_is_found_again():
    """A line of template markup renders as nothing, but would continue the picture's paragraph."""
    source = "```\nrun it\n```\n{% endfor %}\n"
    made = with_inserted(source, [((0, 3), "![x](out_pictures/01-a-abace56e.jpg)")], "x")
    assert without_inserted(made, "x") == (source, 1)
