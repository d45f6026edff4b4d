"""Numbers agree with their nouns, in every message that a person reads."""

import re
from pathlib import Path

import pytest

import limner
from limner.errors import counted
from limner.store.index import IndexReport

SOURCE = Path(limner.__file__).parent
NOUNS = (
    "pictures|steps|files|texts|warnings|stories|pages|topics|groups|duplicates|words|judgements|pairs"
    "|runs|votes|raters|captions|rows|books|queries|sentences|questions|answers|recipes|objects|relations"
    "|graphs|labels|models|projects|videos|frames|folders|items|checks|names|seeds"
)
# A number in an f-string, at most two words, and a plural.
PLURAL = re.compile(
    rf"\{{[^{{}}]+\}} (?:(?!of |in |and |is |are |has |from |with )[\w-]+ ){{0,2}}?(?:{NOUNS})\b(?!/s)"
)
# What is never one: limits, several by the condition before, or no number at all.
NEVER_ONE = (
    "{UNUSABLE} answers in a row",  # a constant above 1
    "{name} holds no words",
    "{one.pairs:,} captioned pictures",  # at least 50
    "{len(texts)} texts",  # several, or it would have been one page
    "{len(steps)} of {len(codes)} steps",  # of a text of several languages
    "{len(found)} different pictures match",
    "{BATCH_FILES:,} files",
    "{count:,} steps, at most",
    "{MAX_ELEMENTS:,} list items",
    "{TEXTS_WAITING} texts",
    "{len(answers)} steps got the picture",  # texts of the demonstration
    "{suffix} files are not read",
    "{run.folder} compares pictures",
    "{run.system} compares pictures",
    "perplexity, {kind} pictures",
    "{task.completed:,.0f} of",  # a bar's
    "all {total:,} picture files exist",  # of a published set
    "{gone:,} of {total:,} pictures",
    "{len(self.words) - len(self._numbers)} words come twice",  # a damaged file
    "{len(data.pairs):,} pairs left out by licence",
    "{rows} texts, expected at least 2",
    "pictures {order} their",  # a column of numbers
    "{MAX_PAGES} or more pages",
    "{len(references)} true texts, expected as many",
    "{total} pairs, expected at least",
    "{total} different pictures, expected at least",
    "{len(features)} pictures, expected at least 2",
    "{len(names)} groups for",
    "pairs with equal pictures",
    "{path} and {paths[0]} have different steps",
    "{steps} steps are not in the population",
    "a context of {len(self.context)} texts",
    "of {entry['steps']} steps; its",
    "{letters} names separated",  # a system each, so two or more
    "{len(letters)} names",
    "{done.rows} of {len(held)} rows are done",
    "reads captions of {counted(",
    "({len(lost)} of {rows} queries)",
    "query {row} names a picture",
    "{len(values)} values for {due} rows",
    "of its {size} true pairs",  # of a batch
    "none of {size} pictures",
    "none of {size} pairs",
    "stories of {steps.tolist()} steps",
    "stories of {counts[:9]} steps",
    "neighbour {int(indices.max())} of {size} rows",
    "the first {shown[0][0].pictures} pairs",  # pools of a published size
    "all {size} pictures",
    "dict.fromkeys((counts[0], counts[-1])))} seeds",  # of several
    "figure: {name} needs measured runs",
    'of {len(rows)} steps" if len(shown) < len(rows)',
    "The first of {first.pictures} validation pictures",
    '{len(values)} seeds"] if len(values) > 1',
    "of {len(every)} validation stories",
    "names a picture of {source.name}",
    "of {count} labels,",
    "but {len(names)} names given",
    "{run.folder} predicts no relations",
    "in {run.folder} relations are not linear",
    "{len(raters) or 'no'} raters of this study match",  # none or several
    "from {entry['items']} items per row",  # a published one
    "--relation {words!r} names no run",
    "of {len(set(ids))} training pictures",
    "{config.graph!r} needs scene graphs",
    "{min(self.topics)} topics gives each more than",
)


@pytest.mark.parametrize(
    ("count", "noun", "due"),
    [
        (0, "picture", "0 pictures"),
        (1, "picture", "1 picture"),
        (1906, "picture", "1,906 pictures"),
        (1, "near-duplicate group", "1 near-duplicate group"),
        (2, "story", "2 stories"),
        (2, "key", "2 keys"),
    ],
)
def test_a_number_and_its_noun(count, noun, due):
    assert counted(count, noun) == due


def test_an_unusual_plural_is_given():
    assert counted(2, "axis", "axes") == "2 axes"
    assert counted(1, "axis", "axes") == "1 axis"


def test_no_message_counts_without_the_wording_function():
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if PLURAL.search(line) and not any(one in line for one in NEVER_ONE)
    ]
    assert not found, "use limner.errors.counted, or add to NEVER_ONE what is never one: " + "\n".join(found)


def test_the_rule_finds_a_wrong_plural():
    assert PLURAL.search('f"{len(pictures):,} pictures in the library"')
    assert PLURAL.search('f"{count} near-duplicate groups"')
    assert not PLURAL.search("f\"{counted(count, 'picture')} in the library\"")


def test_a_report_on_one_of_everything():
    report = IndexReport(
        **{"found": 1, "other_files": 1, "exact_duplicates": 1, "near_groups": 1, "near_pictures": 1},
        **{"pictures": 1, "incomplete": {"clip": 1}},
    )
    said = str(report)
    assert "1 exact duplicate; 1 picture in 1 near-duplicate group" in said
    assert "1 file that is not a picture;" in said
    assert "clip: no vector yet for 1 picture" in said
