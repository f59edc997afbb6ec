"""The pairwise loss, and the choice of negatives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def pairwise_loss(scores: Tensor, grades: Tensor, weighting: str = "none") -> Tensor:
    r"""Mean of :math:`-\log \sigma(s(q, v^+) - s(q, v^-))` over the pairs of one query.

    A pair is any two nodes of different grades, the better one in the place of :math:`v^+`.

    Args:
        scores: [n].
        grades: [n].
        weighting: ``none`` as above; ``grade`` weighs a pair by the difference of its grades; ``ndcg`` by what
            exchanging the two would change in nDCG (LambdaRank).

    Returns:
        A scalar; 0 where there is no pair.

    Source: FRESH, section 3.3; Burges, "From RankNet to LambdaRank to LambdaMART" (2010) for ``ndcg``.
    """
    better = grades[:, None] > grades[None, :]
    if not bool(better.any()):
        return scores.sum() * 0.0
    losses = softplus(-(scores[:, None] - scores[None, :]))
    weight = better.to(scores.dtype)
    if weighting == "grade":
        weight = weight * (grades[:, None] - grades[None, :])
    elif weighting == "ndcg":
        weight = weight * _exchange(scores.detach(), grades)
    return (losses * weight).sum() / weight.sum().clamp(min=1e-9)


def _exchange(scores: Tensor, grades: Tensor) -> Tensor:
    """|change of nDCG| if two nodes changed places, [n, n]."""
    rank = torch.empty_like(scores)
    rank[scores.argsort(descending=True)] = torch.arange(len(scores), dtype=scores.dtype, device=scores.device)
    discount = 1 / torch.log2(rank + 2)
    gain = torch.exp2(grades) - 1
    ideal = (gain.sort(descending=True).values / torch.log2(torch.arange(len(gain), device=gain.device) + 2.0)).sum()
    return ((gain[:, None] - gain[None, :]) * (discount[:, None] - discount[None, :])).abs() / ideal


def choose_negatives(grades: Tensor, hard: Tensor, count: int) -> Tensor:
    """Positions that take part in a step: every positive, and so many negatives, half of them hard.

    Args:
        grades: [n]; 0 for negatives, below 0 for nodes that take no part.
        hard: Whether a negative is a hard one, [n].
        count: Negatives to take; 0 for all.

    Returns:
        Positions, [m]. Drawn from PyTorch's global generator, so that a seed repeats it.
    """
    positive = torch.nonzero(grades > 0).squeeze(1)
    negative = torch.nonzero(grades == 0).squeeze(1)
    if count and len(negative) > count:
        first = negative[hard[negative]]
        first = first[torch.randperm(len(first))[: count // 2]]
        rest = negative[~torch.isin(negative, first)]
        rest = rest[torch.randperm(len(rest))[: count - len(first)]]
        negative = torch.cat([first, rest])
    return torch.cat([positive, negative])
