"""Order energy, which asks that a picture's vector exceed its text's everywhere, and the losses built on it.

For CNSI: one loss per sentence, one per story with steps shuffled among the negatives. It encodes nothing.
"""

import torch
from torch import Tensor

from limner.errors import ShapeError
from limner.losses.checks import finite, positive, wide
from limner.shapes import expect


def order_energy(texts: Tensor, images: Tensor) -> Tensor:
    """How far each text's vector exceeds each picture's: ‖[s_i − v_j]₊‖².

    Args:
        texts: (N, D).
        images: (M, D).
    Returns:
        (N, M), at least 0; 0 where the picture's vector is nowhere the smaller one.
    Raises:
        ShapeError: widths differ.
    Source: SPEC 6.3 (CNSI).
    """
    expect("order_energy", texts=(texts, "N D"), images=(images, "M D"))
    return (texts[:, None] - images).clamp(min=0).square().sum(dim=2)


def sentence_order(texts: Tensor, images: Tensor, margin: float, neg: Tensor) -> Tensor:
    """Hinge on every wrong candidate of a batch of pairs, both directions, summed.

    Args:
        texts: (B, D) |unit| vectors of sentences.
        images: (B, D) of their pictures.
        margin: energy units, > 0.
        neg: (B, B) bool, symmetric, the truly wrong pairs.
    Returns:
        (): 0 for a batch without a wrong candidate.
    Raises:
        ShapeError: sizes do not fit.
        NumericsError: a value is not finite.
        ConfigError: margin not positive.
    Source: SPEC 6.3, stage 1. Departs: duplicates are no candidates.
    """
    where = "sentence_order"
    positive(where, "margin", margin)
    size = expect(where, texts=(texts, "B D"), images=(images, "B D"), neg=(neg, "B B"))["B"]
    if neg.dtype != torch.bool or bool(neg.diagonal().any()):
        raise ShapeError(f"{where}: mask must be bool and False on the diagonal of its {size} true pairs")
    finite(where, "text vector", texts)
    finite(where, "picture vector", images)
    energy = order_energy(wide(texts), wide(images))
    true = energy.diagonal()
    of_texts = (margin - energy + true[:, None]).clamp(min=0)
    of_images = (margin - energy + true).clamp(min=0)
    return ((of_texts + of_images) * neg).sum()


def story_order(
    made: Tensor, images: Tensor, steps: Tensor, shuffled: Tensor, *, margin: float, neg: Tensor
) -> Tensor:
    """Hinge of stories against each other, step by step; only the wrong candidates are shuffled.

    For stories a ≠ b and every place t that both have, E(ŷ of a's step π_a(t), picture of b's step t) must
    exceed by the margin the energy of a's true pair at t, and that of b's.

    Args:
        made: (S, D) vectors made for the steps of B stories, one story after the other.
        images: (S, D) of their pictures.
        steps: (B,) int64, with sum S.
        shuffled: (S,) int64, for every step the row of the step of its own story that replaces it.
        margin: energy units, > 0.
        neg: (S, S) bool, the truly wrong pairs.
    Returns:
        (): sum over all ÷ B; 0 for a single story.
    Raises:
        ShapeError: sizes do not fit.
        NumericsError: a value is not finite.
        ConfigError: margin not positive.
    Source: SPEC 6.3, stage 2. Departs: stories of any lengths, and duplicates are no candidates.
    """
    where = "story_order"
    positive(where, "margin", margin)
    expect(where, made=(made, "S D"), images=(images, "S D"), shuffled=(shuffled, "S"), neg=(neg, "S S"))
    if int(steps.sum()) != len(made) or int(steps.min()) < 1:
        raise ShapeError(
            f"{where}: stories of {steps.tolist()} steps, expected counts that sum to {len(made)}"
        )
    finite(where, "made vector", made)
    finite(where, "picture vector", images)
    told, shown = wide(made), wide(images)
    true = (told - shown).clamp(min=0).square().sum(dim=1)
    steps = steps.to(made.device)
    first = steps.cumsum(0) - steps
    total = told.new_zeros(())
    for place in range(int(steps.max())):  # few places, and each is a table of stories by stories
        rows = (first + place)[steps > place]
        other = shuffled[rows]
        energy = order_energy(told[other], shown[rows])
        wrong = neg[other][:, rows]
        wrong = wrong & ~torch.eye(len(rows), dtype=torch.bool, device=wrong.device)
        own = true[rows]
        of_text = (margin + own[:, None] - energy).clamp(min=0)
        of_image = (margin + own - energy).clamp(min=0)
        total = total + ((of_text + of_image) * wrong).sum()
    return total / len(steps)
