"""The report of a study as a text: what was registered, then every table.

Markdown for reading, LaTeX for a paper, HTML as one page that fetches nothing. It computes nothing.
"""

import html
from typing import Literal, get_args

from limner.data.studies import Study, StudyFiles
from limner.errors import ConfigError, unknown
from limner.evaluation.study_analysis import StudyReport
from limner.evaluation.study_sampling import redrawn
from limner.evaluation.study_tables import build
from limner.evaluation.tables import render

ReportFormat = Literal["md", "latex", "html", "json"]
_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:84rem;margin:2rem auto;"
    "padding:0 1rem}table{border-collapse:collapse;margin:2rem 0 .5rem}"
    "caption{text-align:left;font-weight:600;padding-bottom:.5rem}"
    "th,td{padding:.25rem .75rem;text-align:right;white-space:nowrap}"
    "th:first-child{text-align:left}thead tr:last-child,tbody tr:last-child{border-bottom:1px solid}"
)


def report_text(files: StudyFiles, report: StudyReport, form: ReportFormat = "md") -> str:
    """The whole report.

    Args:
        files: of the study.
        report: what came out.
        form: md, latex (tables alone; needs the package booktabs), html (one page) or json.
    Raises:
        ConfigError: no such format.
    """
    if form == "json":
        return report.model_dump_json(indent=2)
    if form not in get_args(ReportFormat):
        raise ConfigError("study: " + unknown("format", form, get_args(ReportFormat)))
    tables = render(build(report), form)
    if form == "latex":
        return tables
    study, again = files.study, "is" if redrawn(files.population) else "IS NOT"
    facts = [
        *registration_lines(study),
        f"The sample {again} what the seed draws from the stored population; no file was altered",
    ]
    if form == "md":
        plain = [line.replace("*", "\\*").replace("_", "\\_") for line in facts]
        return "\n".join([f"# {study.title}", "", *(f"- {line}" for line in plain), "", tables])
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in facts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(study.title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n<h1>{html.escape(study.title)}</h1>\n<ul>{listed}</ul>\n{tables}\n</main></body></html>"
    )


def registration_lines(study: Study) -> list[str]:
    """What was registered, one fact a line."""
    sizes = ", ".join(
        f"{name}: {one.drawn:,} of {one.population:,}" for name, one in study.sample.strata.items()
    )
    return [
        f"Registered {study.created:%Y-%m-%d %H:%M} UTC with limner {study.version}, SHA-256 {study.sha256}",
        f"Protocol: {study.protocol}; question: {study.question}",
        f"Sample: simple random, seed {study.sample.seed}, unit {study.sample.unit}; {sizes}",
        f"{study.items} items to show, {study.checks} of them attention checks;"
        f" {study.prefilled} pairs of one picture pre-filled; {study.raters_per_item} raters per item",
        *(f"Hypothesis: {line}" for line in study.hypotheses),
        *(f"Planned: {line}" for line in study.analysis),
    ]
