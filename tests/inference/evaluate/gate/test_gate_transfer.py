from __future__ import annotations

from gate_runs import GATE, careful, run
from memory_shop import Chat

from inference.evaluate.gate import measure_transfer


def test_mined_guards_fire_on_their_own_tools_only():
    elsewhere = Chat("Please void my ticket T4711.").call("void_ticket", {"ticket_id": "T4711"}, "{}")
    shouted = Chat().call("cancel_order", {"order_id": "#W999", "reason": "mistake"}, "{}")
    runs = [run("1", careful(), []), run("2", shouted, []), run("3", elsewhere, [], domain="trains")]
    found = measure_transfer(GATE, runs)
    assert (found.known_calls, found.unseen_calls) == (3, 1)
    assert found.known_mined > 0 and found.unseen_mined == 0
    assert found.default == "check" and sum(found.unseen_verdicts.values()) == 1
    assert found.unseen_checks
