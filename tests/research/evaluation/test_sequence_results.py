"""Files of sequence results: what was written is read, and nothing else is."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_sequences import sequence_result

from limner.errors import DataError, MissingError
from limner.research.evaluation.results import Captions, Result, SequenceResult, TextScores

TOLD = {"tokens": [5] * 12, "unknown": [1] * 12, "nats": {"true": [2.5] * 12, "found": [3.0] * 12}}


@pytest.fixture(scope="module")
def result():
    return sequence_result("Tiny", 2.0, stories=4)


def test_what_was_written_is_read(result, tmp_path):
    lost = result.found["steps"].model_copy(
        update={"saliency": dict.fromkeys(("noun", "sequence"), (np.inf,) * 12)}
    )
    scores = TextScores(bleu=0.1, chrf=0.2, texts=12, settings=("a", "b"))
    captions = Captions(tokens=(5,) * 12, unknown=(1,) * 12, nats=TOLD["nats"], scores=scores)
    result = result.model_copy(update={"found": {**result.found, "steps": lost}, "captions": captions})
    path = result.write(tmp_path / "run")
    assert path.relative_to(tmp_path).as_posix() == "run/results/sequences/storybook-grouped-test.json"
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert SequenceResult.read(path) == result
    assert SequenceResult.read_all(tmp_path) == [result]
    assert Result.read_all(tmp_path) == []  # the results of all systems lie one level above


def test_two_of_one_run_are_refused(result, tmp_path):
    result.write(tmp_path / "one")
    result.write(tmp_path / "two")
    with pytest.raises(DataError, match="same system, data"):
        SequenceResult.read_all(tmp_path)
    with pytest.raises(MissingError, match="not a folder"):
        SequenceResult.read_all(tmp_path / "none")
    with pytest.raises(MissingError, match="run 'limner measure'"):
        SequenceResult.read(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot be read"):
        SequenceResult.read(tmp_path)


def shorter(values):
    values.pop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(format="limner-sequence-result-2"), "format"),
        (lambda r: r.update(more=1), "more"),
        (lambda r: r.update(found={}), "found"),
        (lambda r: r.update(pictures=3), "ranks in 1…3"),
        (lambda r: shorter(r["stories"]), "stories has 11 values for 12 rows"),
        (lambda r: r["ids"].__setitem__(1, r["ids"][0]), "unique ids"),
        (lambda r: shorter(r["found"]["steps"]["own"]), "own has 11 values for 12 rows"),
        (
            lambda r: r["found"]["steps"]["story"].__setitem__(0, 0.5),
            r"story\.0: .* or equal to 1",
        ),
        (
            lambda r: r["found"]["steps"]["own"].__setitem__(0, "NaN"),
            r"own\.0: .* or equal to 1",
        ),
        (lambda r: r["found"]["steps"]["top"].__setitem__(0, []), r"top\.0: "),
        (lambda r: r["found"]["steps"]["similarity"].__setitem__(0, 2), r"similarity\.0: "),
        (lambda r: shorter(r["found"]["steps"]["similarity"]), "similarity has 11 values"),
        (
            lambda r: r["found"]["steps"]["saliency"]["noun"].__setitem__(0, 0),
            r"noun\.0: .* or equal to 1",
        ),
        (lambda r: r["found"]["steps"]["saliency"].pop("noun"), "different definitions"),
        (lambda r: r["found"]["steps"]["saliency"].update(verb=[1] * 12), "saliency"),
        (lambda r: r["found"].update(beam=r["found"]["steps"]), "found"),
        (
            lambda r: r["levels"]["noun"]["random"].__setitem__(0, 1.5),
            r"random\.0: .* or equal to 1",
        ),
        (lambda r: shorter(r["levels"]["noun"]["gold"]), "levels"),
        (lambda r: r.update(random_similarity=3), "random_similarity"),
        (lambda r: r.update(gold_coherence=3), "gold_coherence"),
        (lambda r: shorter(r["found"]["steps"]["coherence"]), "none where a story begins"),
        (lambda r: r["found"]["steps"]["coherence"].__setitem__(0, 0.5), "none where a story begins"),
        (lambda r: r["found"]["steps"]["coherence"].__setitem__(1, None), "none where a story begins"),
        (lambda r: r["found"]["steps"]["coherence"].__setitem__(1, 2), r"coherence\.1: "),
        (lambda r: r.update(captions={}), "captions"),
        (lambda r: r.update(captions=TOLD | {"nats": {"true": [1] * 12}}), r"captions\.nats: "),
        (lambda r: r.update(captions=TOLD | {"unknown": [1] * 11}), "unknown has 11 values for 12 rows"),
        (lambda r: r.update(captions=TOLD | {"unknown": [6] * 12}), "unknown words among the tokens"),
        (
            lambda r: r.update(captions=TOLD | {"nats": {"true": [1] * 12, "found": [-1] * 12}}),
            r"nats\.found\.0: ",
        ),
        (
            lambda r: r.update(
                captions={key: value[:11] for key, value in TOLD.items() if key != "nats"}
                | {"nats": {key: value[:11] for key, value in TOLD["nats"].items()}}
            ),
            "captions has 11 values for 12 rows",
        ),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(result, tmp_path, change, said):
    values = json.loads(result.model_dump_json())
    change(values)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match=said) as error:
        SequenceResult.read(path)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@given(st.binary(max_size=200) | st.integers(0, 5000).map(lambda n: b"[" * n))
def test_any_other_file_is_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="expected a sequence result of this version") as error:
        SequenceResult.read(path)
    assert "\n" not in str(error.value)


@given(st.data())
def test_a_file_with_one_changed_byte_is_read_or_refused(tmp_path_factory, data):
    whole = sequence_result("Tiny", 2.0, stories=2, features=False).model_dump_json().encode()
    at, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
    try:
        found = SequenceResult.read(path)
    except DataError:
        return
    assert SequenceResult.model_validate(found.model_dump()) == found
