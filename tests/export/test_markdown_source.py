"""Markdown comes out as it went in: the author's own source, with pictures put in and nothing else changed."""

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from limner.errors import LimnerError
from limner.export import export
from limner.records import Board, BoardStep, Candidate, Framing
from limner.text.insertion import with_inserted, without_inserted
from limner.text.read import parse_story_report, read_story_report

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


@settings(deadline=None, max_examples=int(__import__('os').environ.get('EX','60')))
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
