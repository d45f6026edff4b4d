"""``limner measure``: trained runs on their test or validation rows.

This module parses options and prints; `limner.research.runs` measures.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from limner.cli.main import emit_report, say
from limner.devices import Precision
from limner.errors import ConfigError, counted
from limner.research.evaluation.results import Protocol, SequenceResult, commit


def measure(
    *runs: Path,
    part: Literal["test", "val"] = "test",
    choices: Annotated[tuple[int, ...], Parameter(negative="")] = (),
    distractors: Path = Path("choices"),
    saliency: bool | None = None,
    judge: Literal["linear", "vgg19"] = "linear",
    in_sample: Annotated[bool, Parameter(negative="")] = False,
    protocol: Protocol = "pools",
    pairwise: Literal["graphs", "features"] | None = None,
    weights: Path | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure trained runs and write their result files, which 'limner table' and 'limner figure' read.

    Ranks are computed in ten pools, the same for every run, and in the full set. Runs that predict relations
    are measured with and without the refinement chosen on validation. --choices adds c-way questions, from
    picture to text and from text to picture. On stories, every step is measured too: the ranks of its own
    picture and of all pictures of its story, and visual measures of the top-ranked pictures; if the run
    generates sentences, also their quality. A run trained on a mixture is measured on each of its sets. Under
    torchrun the processes share the work; the figures are the same.

    Example: limner measure runs/cmcm runs/cmca

    Example: limner measure runs/* --choices 5 --choices 20

    Example: limner measure runs/* --protocol legacy

    Parameters
    ----------
    runs
        Folders written by 'limner train'.
    part
        Part of the data set to measure on.
    choices
        Options per c-way question (repeatable); 0 means the data set's usual number: 100 for COCO, 20 for
        Conceptual Captions, 5 for others.
    distractors
        Folder of the questions. They are drawn once and reused, so that all runs answer the same ones.
    saliency
        Measure Visual Saliency Recall (VSR@k): whether a classifier finds the nouns of a step, or its story,
        in the top-ranked pictures. Takes about a minute per 500 pictures. Default: on, up to 5000 pictures.
    judge
        That classifier: linear, on the stored features; or vgg19, trained on pixels as in the paper, which
        needs weights ('limner models get vgg19') and a GPU.
    in_sample
        Train that classifier on the pictures that it scores, as the paper may have done, instead of five-fold
        cross-validation.
    protocol
        Pools for the ranks: pools, or legacy for those of the CMCM release, which repeat pictures: the first
        500 pairs, and ten draws of 500 with replacement. Legacy results contain only ranks. They are stored
        next to the others, and only 'limner table cmcm-… --protocol legacy' reads them.
    pairwise
        Only rank the steps of every story together and print the result, by the scores of the run and by the
        similarity of pictures: of their scene graphs (graphs: ψ of a GSDA run) or of their stored features.
        Decoding is from left to right (greedy, beam), as a chain, around one picture (anchor), and with the
        first step's own picture given (pin); the weight of similarity, ω, is chosen on validation stories.
        Nothing is written.
    weights
        Weights of the backbone, if features must still be computed: a file, or a folder to look in.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
    precision
        Precision of runs with a trained backbone: float32, bfloat16 or float16. Default: that of training.
        Stored features keep theirs.
    json
        Print JSON instead of text.
    """
    from limner.research.runs.measure import SequenceMeter
    from limner.research.runs.run import Run
    from limner.research.training import processes

    if not runs:
        raise ConfigError("measure: no run given; example: limner measure runs/cmcm")
    if wrong := [c for c in choices if c < 2 and c != 0]:
        raise ConfigError(
            f"measure: --choices {wrong[0]}, expected at least 2, or 0 for the data set's usual number"
        )
    if pairwise is not None:
        _together(runs, part, pairwise, weights, device, as_json=json)
        return
    with processes.report_once():
        computes = processes.join(device)
        first = processes.rank() == 0
        rows, lines = [], []
        stories = SequenceMeter(saliency=saliency, judge=judge, in_sample=in_sample)
        opened = ((run, Run.open(run, computes, precision)) for run in runs)
        sets = ((run, own, name) for run, own in opened for name in own.config.data.mixture or ("",))
        for run, own, name in sets:
            measured = own.evaluate(
                part, weights=weights, commit=commit() or "", choices=choices, distractors=distractors,
                stories=stories, protocol=protocol, of=name,
            )  # fmt: skip
            result = measured.result
            if first:
                measured.write(run)
            full = result.full or result.first
            figures: dict[str, float] = {}
            for stage, ranks in (("plain", full.plain), ("refined", full.refined)) if full else ():
                if ranks:
                    figures |= {f"{stage} MedR": float(np.median(ranks))}
                    figures |= {f"{stage} R@{k}": _recall(ranks, k) for k in (1, 10)}
            for answers in measured.choices:
                by_picture, by_text = answers.accuracy
                figures |= {f"{answers.c}-way I→T": by_picture, f"{answers.c}-way T→I": by_text}
            if measured.sequences is not None:
                figures |= _captions(measured.sequences)
                for decoding, found in measured.sequences.found.items():
                    figures[f"{decoding} R@1"] = _recall(found.own, 1)
                    figures[f"{decoding} StR@1"] = _recall(found.story, 1)
            about = {"run": str(run), "system": result.about.system} | ({"set": name} if name else {})
            rows.append({**about, "pairs": len(result.ids), **figures})
            of = f" of {name}" if name else ""
            if first:
                pairs = counted(len(result.ids), f"{part} pair")
                say(f"{run}: measured {result.about.system} on {pairs}{of}")
            shown = "  ".join(f"{name} {value:.3f}" for name, value in figures.items())
            lines.append(f"{result.about.system}\t{counted(len(result.ids), 'pair')}{of}\t{shown}")
        if first:
            emit_report(rows, lines, as_json=json)
        processes.leave()


def _together(
    runs: tuple[Path, ...],
    part: Literal["test", "val"],
    pairwise: Literal["graphs", "features"],
    weights: Path | None,
    device: str,
    *,
    as_json: bool,
) -> None:
    """Print how well runs rank pictures for the steps of stories jointly."""
    from limner.research.runs.coupled import coupled, coupled_of
    from limner.research.runs.run import Run

    rows, lines = [], []
    for run in runs:
        opened = Run.open(run, "cpu" if device == "auto" else device)
        val, shown = (coupled_of(opened, one, pairwise, weights) for one in ("val", part))
        for way, omega, figures in coupled(val, shown):
            found = {name: [one.value, one.low, one.high] for name, one in figures.items()}
            rows.append({"run": str(run), "system": opened.name, "way": way, "omega": omega, **found})
            words = "  ".join(
                f"{name} {one.value:.3f} [{one.low:.3f}, {one.high:.3f}]" for name, one in figures.items()
            )
            lines.append(f"{opened.name}\t{way}\tω {omega:g}\t{words}")
    emit_report(rows, lines, as_json=as_json)


def _captions(result: SequenceResult) -> dict[str, float]:
    """Quality of the sentences that a run generates; empty if it generates none."""
    generated = result.captions
    if generated is None:
        return {}
    from limner.research.evaluation.caption_scores import perplexity

    tokens = np.array(generated.tokens)
    figures = {
        f"perplexity, {kind} pictures": perplexity(np.array(nats), tokens)
        for kind, nats in generated.nats.items()
    }
    if generated.scores is not None:
        figures |= {"BLEU-4": generated.scores.bleu, "chrF": generated.scores.chrf}
    return figures


def _recall(ranks: tuple[float, ...], k: int) -> float:
    return float((np.array(ranks) <= k).mean())
