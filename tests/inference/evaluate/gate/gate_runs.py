"""Small recorded runs of the made-up shop, for the tests of the gate's evaluation."""

from __future__ import annotations

from memory_shop import Chat, make_graph

from fresh.gate import Gate
from fresh.knowledge import ToolIndex
from fresh.traces.messages import parse_messages
from graph_schema import Feedback, GoldAction, Outcome, Source, Trajectory

CANCEL = {"order_id": "#W111", "reason": "mistake"}
GATE = Gate(ToolIndex(make_graph()))


def run(
    task: str,
    chat: Chat,
    gold: list[dict] | None,
    outcome: Outcome = Outcome.SUCCESS,
    *,
    attack: str | None = None,
    attack_succeeded: bool | None = None,
    domain: str = "shop",
    tool: str = "cancel_order",
) -> Trajectory:
    return Trajectory(
        id=f"{task}-{len(chat.messages)}-{outcome}-{attack}",
        source=Source(file="made", record=0),
        format="made",
        domain=domain,
        task_id=task,
        request="",
        turns=parse_messages(chat.messages),
        feedback=Feedback(outcome=outcome, attack=attack, attack_succeeded=attack_succeeded),
        gold=None if gold is None else tuple(GoldAction(tool=tool, arguments=g) for g in gold),
    )


def careful() -> Chat:
    return Chat().read("#W111").agreed().call("cancel_order", CANCEL, "{}")


def hasty() -> Chat:
    return Chat().call("cancel_order", CANCEL | {"order_id": "#W999"}, "{}")
