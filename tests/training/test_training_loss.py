from __future__ import annotations

import math

import pytest
import torch

from training.loss import choose_negatives, pairwise_loss

SCORES = torch.tensor([2.0, 0.5, 1.0])
GRADES = torch.tensor([0.0, 1.0, 2.0])


def by_hand(weights: dict[tuple[int, int], float]) -> float:
    total = sum(w * math.log(1 + math.exp(-(SCORES[p] - SCORES[n]).item())) for (p, n), w in weights.items())
    return total / sum(weights.values())


def test_pairwise_loss_is_the_mean_over_pairs() -> None:
    pairs = {(1, 0): 1.0, (2, 0): 1.0, (2, 1): 1.0}
    assert pairwise_loss(SCORES, GRADES).item() == pytest.approx(by_hand(pairs), rel=1e-6)
    assert pairwise_loss(SCORES, GRADES, "grade").item() == pytest.approx(by_hand(pairs | {(2, 0): 2.0}), rel=1e-6)


def test_ndcg_weights() -> None:
    discount = {0: 1.0, 2: 1 / math.log2(3), 1: 0.5}  # by rank of the scores
    gain = {0: 0.0, 1: 1.0, 2: 3.0}
    weights = {(p, n): abs((gain[p] - gain[n]) * (discount[p] - discount[n])) for p, n in ((1, 0), (2, 0), (2, 1))}
    assert pairwise_loss(SCORES, GRADES, "ndcg").item() == pytest.approx(by_hand(weights), rel=1e-5)


def test_no_pair_gives_zero_with_a_gradient() -> None:
    scores = torch.randn(4, requires_grad=True)
    loss = pairwise_loss(scores, torch.ones(4))
    loss.backward()
    assert loss.item() == 0 and scores.grad is not None and not scores.grad.any()


def test_better_order_costs_less() -> None:
    assert pairwise_loss(GRADES, GRADES) < pairwise_loss(SCORES, GRADES) < pairwise_loss(-GRADES, GRADES)


def test_negatives_half_hard() -> None:
    grades = torch.tensor([2.0] + [0.0] * 40 + [-1.0] * 5)
    hard = torch.zeros(46, dtype=torch.bool)
    hard[1:21] = True
    chosen = choose_negatives(grades, hard, 10)
    assert chosen[0] == 0 and len(chosen) == 11 and len(set(chosen.tolist())) == 11
    assert (grades[chosen[1:]] == 0).all() and hard[chosen].sum() >= 5
    assert len(choose_negatives(grades, hard, 0)) == 41
