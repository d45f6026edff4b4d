"""A second reading of every step: names resolved by the text around, and no answer is no sentence."""

import pytest
from chat_server import chat_body, reply, says

from limner.describe.chat import Chat, EndpointError
from limner.describe.steps import rewritten
from limner.progress import Progress
from limner.records import Step, Story

STORY = Story(
    id="kite",
    title="Finn's kite",
    steps=(
        Step(text="Finn, a young fox, builds a kite."),
        Step(text="Finn runs {fast}.", title="Wind"),
        Step(text="It flies."),
    ),
)


class Notes(Progress):
    def __init__(self):
        self.lines, self.done = [], 0

    def advance(self, count):
        self.done += count

    def note(self, line):
        self.lines.append(line)


def test_every_step_gets_one_sentence_and_is_asked_with_the_text_around(server):
    server.answer = says(
        '{"sentence": "A fox builds a kite."}', '{"sentence": "A fox runs."}', '{"sentence": "Sky."}'
    )
    assert rewritten(STORY, Chat(server.endpoint, "wise")) == ["A fox builds a kite.", "A fox runs.", "Sky."]
    prompt = server.requests[1]["messages"][0]["content"]
    context, _, passage = prompt.partition("<passage>")
    assert "Finn's kite" in context
    assert context.index("Finn, a young fox") < context.index("[the passage]") < context.index("It flies.")
    assert passage == "\nWind\nFinn runs {fast}.\n</passage>"


def test_a_step_without_a_usable_answer_gets_none_and_a_note(server):
    def answer(handler, asked):
        wrong = "runs" in asked["messages"][0]["content"].partition("<passage>")[2]
        reply(handler, chat_body("No." if wrong else '{"sentence": "A fox."}'))

    server.answer, notes = answer, Notes()
    assert rewritten(STORY, Chat(server.endpoint, "wise"), notes) == ["A fox.", "", "A fox."]
    assert notes.lines == ["step 2: not rewritten: no JSON object with 'sentence' in the answer"]
    assert notes.done == 3


def test_a_long_text_is_cut_around_the_step(server):
    long = Story(id="long", steps=tuple(Step(text=f"{number} " + "word " * 400) for number in range(30)))
    server.answer = says('{"sentence": "Words."}')
    assert rewritten(long, Chat(server.endpoint, "wise")) == ["Words."] * 30
    assert max(len(asked["messages"][0]["content"]) for asked in server.requests) < 12_000
    middle = server.requests[15]["messages"][0]["content"]
    assert all(part in middle for part in ("0 word", "[…]", "15 word", "16 word"))


def test_an_endpoint_that_does_not_answer_is_one_error(server):
    server.answer = lambda handler, asked: reply(handler, b"{}", 500)
    with pytest.raises(EndpointError, match="HTTP 500; 3 times in a row"):
        rewritten(STORY, Chat(server.endpoint, "wise"))
    assert len(server.requests) == 3
