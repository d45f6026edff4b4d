"""Contrastive losses over pairs and groups, and the order losses of CNSI.

Duplicates of the true item never count as negatives.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limner.arrays import expect
from limner.errors import ShapeError
from limner.research.losses.ranking import finite, product, score_table, wide


def info_nce(logits: Tensor, neg: Tensor) -> Tensor:
    """InfoNCE: cross entropy of the true pair against the wrong ones, mean of both directions.

    Args:
        logits: (B, B) text rows, image columns, divided by the temperature; true pairs on the diagonal.
        neg: (B, B) bool, symmetric, the truly wrong pairs.
    Returns:
        (): at least 0; 0 if there is no wrong pair.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a logit is not finite.
    Source: van den Oord et al. 2018; in both directions as CLIP (Radford et al. 2021). Departs: duplicates
        are left out of the denominator.
    """
    table = score_table("info_nce", logits, neg)
    candidates = neg | torch.eye(len(table), dtype=torch.bool, device=table.device)
    masked = table.masked_fill(~candidates, -torch.inf)
    due = torch.arange(len(table), device=table.device)
    return 0.5 * (cross_entropy(masked, due) + cross_entropy(masked.t(), due))


def info_nce_of_many(logits: Tensor, owners: Tensor, neg: Tensor) -> Tensor:
    """InfoNCE with several texts per picture; each true item competes only with wrong ones.

    Args:
        logits: (T, B) text rows, image columns, divided by the temperature.
        owners: (T,) int64, the column of each text's picture; every picture has at least one text.
        neg: (T, B) bool, the truly wrong pairs.
    Returns:
        (): mean of both directions; from picture to text, every picture has the same total weight.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a logit is not finite.
    Source: see `info_nce`. Departs: the true texts of a picture do not compete with each other.
    """
    expect("info_nce_of_many", logits=(logits, "T B"), owners=(owners, "T"), neg=(neg, "T B"))
    finite("info_nce_of_many", "logit", logits)
    true_pairs = torch.zeros_like(neg).scatter_(1, owners[:, None], value=True)
    texts = cross_entropy(logits.masked_fill(~(neg | true_pairs), -torch.inf), owners)
    true = logits.gather(1, owners[:, None])[:, 0]
    wrong = logits.masked_fill(~neg, -torch.inf).logsumexp(dim=0)[owners]
    costs = torch.logaddexp(wrong, true) - true
    counts = true_pairs.sum(dim=0).clamp(min=1)[owners]
    return 0.5 * (texts + (costs / counts).sum() / logits.shape[1])


def same_group(vectors: Tensor, groups: Tensor, image_ids: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss: the other members of an item's group against all other items.

    Args:
        vectors: (B, D) unit vectors.
        groups: (B,) integers, equal for members of one group.
        image_ids: (B,) integers, equal for copies of a picture, which are ignored.
        temperature: τ > 0.
    Returns:
        (): mean over the items that have another member.
    Raises:
        ShapeError: sizes differ, or no item has another member.
        NumericsError: a vector is not finite.
    Source: Khosla et al. 2020, supervised contrastive loss, L_out. Departs: copies of a picture are left out.
    """
    size = expect("same_group", vectors=(vectors, "B D"), groups=(groups, "B"), image_ids=(image_ids, "B"))[
        "B"
    ]
    finite("same_group", "vector", vectors)
    other = image_ids[:, None] != image_ids
    member = other & (groups[:, None] == groups)
    counted = member.any(dim=1)
    if not bool(counted.any()):
        raise ShapeError(f"same_group: none of {size} pictures has another of its group; use larger batches")
    logits = (product(vectors, vectors.t()) / temperature)[counted].masked_fill(~other[counted], -torch.inf)
    log_shares = logits - logits.logsumexp(dim=1, keepdim=True)
    members = member[counted]
    return -(log_shares.masked_fill(~members, 0).sum(dim=1) / members.sum(dim=1)).mean()


def order_energy(texts: Tensor, images: Tensor) -> Tensor:
    """Order violation of each text and each picture: ‖[s_i − v_j]₊‖².

    Args:
        texts: (N, D) vectors s.
        images: (M, D) vectors v.
    Returns:
        (N, M), at least 0; 0 if the picture's vector is at least the text's in all dimensions.
    Raises:
        ShapeError: widths differ.
    Source: CNSI 2018; docs/methods/gsda.md §8.3.
    """
    expect("order_energy", texts=(texts, "N D"), images=(images, "M D"))
    return (texts[:, None] - images).clamp(min=0).square().sum(dim=2)


def sentence_order(texts: Tensor, images: Tensor, margin: float, neg: Tensor) -> Tensor:
    """Hinge on every wrong candidate of a batch of pairs, both directions, summed.

    Args:
        texts: (B, D) absolute values of unit vectors of sentences.
        images: (B, D) absolute values of unit vectors of their pictures.
        margin: energy units, > 0.
        neg: (B, B) bool, symmetric, the truly wrong pairs.
    Returns:
        (): 0 for a batch without a wrong candidate.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a value is not finite.
    Source: the release of CNSI 2018; docs/methods/gsda.md §8.3, stage 1. Departs: duplicates are not
    candidates.
    """
    where = "sentence_order"
    finite(where, "text vector", texts)
    finite(where, "picture vector", images)
    energy = score_table(where, order_energy(wide(texts), wide(images)), neg)
    true = energy.diagonal()
    of_texts = (margin - energy + true[:, None]).clamp(min=0)
    of_images = (margin - energy + true).clamp(min=0)
    return ((of_texts + of_images) * neg).sum()


def story_order(
    made: Tensor, images: Tensor, steps: Tensor, shuffled: Tensor, *, margin: float, neg: Tensor
) -> Tensor:
    """Hinge between stories, position by position; steps are shuffled only in the wrong pairs.

    For stories a ≠ b and each position t that both have, E(ŷ of a's step π_a(t), picture of b's step t) must
    exceed the energies of the true pairs of a and of b at t by the margin.

    Args:
        made: (S, D) vectors generated for the steps of B stories, concatenated.
        images: (S, D) vectors of their pictures.
        steps: (B,) int64, steps per story, with sum S.
        shuffled: (S,) int64, for each step the row of the step of the same story that replaces it.
        margin: energy units, > 0.
        neg: (S, S) bool, the truly wrong pairs.
    Returns:
        (): the sum divided by B; 0 for a single story.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a value is not finite.
    Source: the release of CNSI 2018; docs/methods/gsda.md §8.3, stage 2. Departs: stories may have different
    lengths; duplicates are not candidates.
    """
    where = "story_order"
    expect(where, made=(made, "S D"), images=(images, "S D"), shuffled=(shuffled, "S"), neg=(neg, "S S"))
    if int(steps.sum()) != len(made) or int(steps.min()) < 1:
        raise ShapeError(
            f"{where}: stories of {steps.tolist()} steps, expected counts that sum to {len(made)}"
        )
    finite(where, "made vector", made)
    finite(where, "picture vector", images)
    made_wide, pictures_wide = wide(made), wide(images)
    true = (made_wide - pictures_wide).clamp(min=0).square().sum(dim=1)
    steps = steps.to(made.device)
    first = steps.cumsum(0) - steps
    total = made_wide.new_zeros(())
    for place in range(int(steps.max())):  # few positions, with one table of stories by stories each
        rows = (first + place)[steps > place]
        other = shuffled[rows]
        energy = order_energy(made_wide[other], pictures_wide[rows])
        wrong = neg[other][:, rows]
        wrong = wrong & ~torch.eye(len(rows), dtype=torch.bool, device=wrong.device)
        true_energy = true[rows]
        of_text = (margin + true_energy[:, None] - energy).clamp(min=0)
        of_image = (margin + true_energy - energy).clamp(min=0)
        total = total + ((of_text + of_image) * wrong).sum()
    return total / len(steps)
