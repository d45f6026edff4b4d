"""VGG-19 classifiers of test pictures' labels, for Visual Saliency Recall."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from limner.encoders.catalogue import weight_file
from limner.encoders.weight_files import read_state
from limner.errors import RESEARCH, installed
from limner.research.evaluation.sequences import folds

EPOCHS, BATCH, RATE = 10, 32, 1e-4
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def vgg_scores(
    pictures: NDArray[np.generic],
    truth: NDArray[np.bool_],
    *,
    in_sample: bool = False,
    device: str = "cpu",
    network: Callable[[int], nn.Module] | None = None,
) -> NDArray[np.float32]:
    """Scores of all labels for all pictures, by fine-tuned VGG-19 networks with cross-validation.

    Starts from ImageNet weights and trains all layers for ten epochs, with a sigmoid per label and Adam at
    10⁻⁴. Each picture is scored by a network trained on the other folds.

    Args:
        pictures: (M, side, side, 3) bytes.
        truth: (M, L) bool, true labels.
        in_sample: whether to train on all pictures instead, which the paper's wording allows.
        device: torch device.
        network: number of labels → an untrained network, instead of VGG-19.
    Returns:
        (M, L) logits.
    Raises:
        MissingError: the weights of vgg19 are not installed.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §6.5. Departs: starts from ImageNet
    weights; the paper's VGG-19 trained on food was not published.
    """
    scores = np.zeros(truth.shape, np.float32)
    for seen, held in folds(len(pictures), in_sample=in_sample):
        torch.manual_seed(0)
        model = (network or _vgg19)(truth.shape[1]).to(device)
        _learn(model, pictures, truth, seen, device)
        model.eval()
        with torch.no_grad():
            for start in range(0, len(held), BATCH):
                some = held[start : start + BATCH]
                scores[some] = model(_input(pictures[some], device)).float().cpu().numpy()
    return scores


def _learn(
    model: nn.Module,
    pictures: NDArray[np.generic],
    truth: NDArray[np.bool_],
    rows: NDArray[np.int64],
    device: str,
) -> None:
    draw = np.random.default_rng(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    model.train()
    for _ in range(EPOCHS):
        order = draw.permutation(rows)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            due = torch.from_numpy(truth[some].astype(np.float32)).to(device)
            loss = binary_cross_entropy_with_logits(model(_input(pictures[some], device)), due)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()


def _input(pictures: NDArray[np.generic], device: str) -> Tensor:
    """(B, side, side, 3) bytes → (B, 3, side, side), normalised as for ImageNet."""
    values = torch.from_numpy(np.ascontiguousarray(pictures)).to(device).permute(0, 3, 1, 2).float() / 255
    mean, deviation = (torch.tensor(one, device=device)[:, None, None] for one in (_MEAN, _DEVIATION))
    return (values - mean) / deviation


def _vgg19(labels: int) -> nn.Module:
    """VGG-19 with ImageNet weights and a new last layer for the labels."""
    with installed("torchvision", RESEARCH):
        from torchvision.models import vgg19

    weights = read_state(weight_file("vgg19"))
    model = vgg19(weights=None)
    model.load_state_dict(weights)
    model.classifier[-1] = nn.Linear(4096, labels)
    whole: nn.Module = model
    return whole
