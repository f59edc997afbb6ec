"""A small library desk with recorded runs, for the tests of retrieval and training."""

from __future__ import annotations

import random

from fresh.retrieval.corpus import Corpus
from fresh.retrieval.encoder import HashedEncoder
from graph_schema.trajectory import (
    Feedback,
    GoldAction,
    Observation,
    Outcome,
    Role,
    Source,
    ToolCall,
    Trajectory,
    Turn,
)

WISHES = {
    "renew_loan": "I want to renew the loan of my book, keep it longer",
    "cancel_hold": "please cancel the hold I placed, I do not need it any more",
    "pay_fine": "there is a fine on my account and I would like to pay it",
    "update_address": "I moved house, change my postal address",
}


def run(number: int, wish: str, *, fails: bool = False, gold: bool = True) -> Trajectory:
    """One run: look up the member, look at the loan, write; with a failed first write if asked."""
    rng = random.Random(number)
    member, loan = f"member_{rng.randrange(10**6)}", f"L{rng.randrange(10**6)}"
    steps = [
        ("find_member", {"card": f"C{number}77"}, f'{{"member_id": "{member}", "loans": ["{loan}"]}}', False),
        ("get_loan", {"loan_id": loan}, f'{{"loan_id": "{loan}", "status": "active"}}', False),
    ]
    if fails:
        steps.append((wish, {"loan_id": "L0"}, "Error: no such loan", True))
    steps.append((wish, {"loan_id": loan, "member_id": member}, '{"status": "done"}', False))
    turns = [Turn(role=Role.USER, text=f"Hello, {WISHES[wish]}. My card is C{number}77.")]
    identity = f"run{number:04d}"
    for i, (tool, arguments, result, error) in enumerate(steps):
        call = ToolCall(
            id=f"{identity}/{i}/0",
            tool=tool,
            arguments=arguments,
            raw_arguments=str(arguments),
            observation=Observation(text=result, is_error=error),
        )
        turns.append(Turn(role=Role.ASSISTANT, calls=(call,)))
        if i == 1:
            turns.append(Turn(role=Role.ASSISTANT, text="Shall I go ahead?"))
            turns.append(Turn(role=Role.USER, text="yes, please do"))
    return Trajectory(
        id=identity,
        source=Source(file="desk.jsonl", record=number),
        format="chat",
        domain="library",
        task_id=str(number // 2),
        request=turns[0].text,
        turns=tuple(turns),
        feedback=Feedback(outcome=Outcome.SUCCESS),
        gold=tuple(GoldAction(tool=t, arguments=a) for t, a, _, e in steps if not e) if gold else None,
    )


def runs(count: int = 32) -> list[Trajectory]:
    """Two runs of each task; wishes in turn, every third run with a failed call."""
    wishes = list(WISHES)
    return [run(i, wishes[(i // 2) % len(wishes)], fails=i % 3 == 0) for i in range(count)]


def corpus(count: int = 32) -> Corpus:
    """The runs as a corpus, embedded by hashing."""
    return Corpus(runs(count), HashedEncoder(64))
