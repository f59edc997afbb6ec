from __future__ import annotations

import json

import pytest

pytest.importorskip("tau2", reason="the tau2 extra is not installed")

from graph_schema.trajectory import Effect
from inference.evaluate.tau2.environment import Domain, load_domain
from inference.evaluate.tau2.executor import Executor
from inference.evaluate.tau2.faults import FaultMaker
from inference.evaluate.tau2.plan import TaskPlan, plan_task
from inference.evaluate.tau2.record import fault_json
from inference.evaluate.tau2.settings import ErrorKind, Settings, load_settings

HANDOVER = load_settings().handover_tool


def always(kind: ErrorKind, **more) -> Settings:
    return Settings(rates={kind: 1.0}, recovery=0.0, handover_tool=HANDOVER, **more)


def writes_made(domain: Domain, item) -> list[dict]:
    return [
        {"name": call.name, "arguments": call.arguments}
        for message in item.run.conversation.messages
        if message.role == "assistant" and message.tool_calls
        for call in message.tool_calls
        if domain.effects[call.name] is Effect.WRITE
    ]


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_each_kind_of_error_harms_every_run_it_is_made_in(domain, plans, run_all, kind: ErrorKind) -> None:
    done = run_all(domain, plans, always(kind))
    hit = [item for item in done if item.run.faults]
    assert len(hit) >= 5
    assert all(fault.kind is kind and fault.reached for item in hit for fault in item.run.faults)
    assert [item.reward.reward for item in hit] == [0.0] * len(hit)
    assert all(item.succeeded for item in done if not item.run.faults)


def test_a_skipped_read_leaves_an_argument_guessed(domain, plans, run_all) -> None:
    for item in run_all(domain, plans, always(ErrorKind.SKIPPED_READ)):
        for fault in item.run.faults:
            assert fault.wrong and not fault.call.same_as(fault.gold)
            before = item.run.conversation.messages[fault.message - 1]
            assert before.role == "user" and before.content.startswith("Yes")
            seen = " ".join(m.content or "" for m in item.run.conversation.messages[: fault.message])
            wrong = [name for name in fault.wrong if json.dumps(fault.gold.arguments[name]) not in seen]
            assert wrong


def test_a_premature_write_is_not_confirmed(domain, plans, run_all) -> None:
    done = run_all(domain, plans, always(ErrorKind.PREMATURE_WRITE))
    assert any(item.run.faults for item in done)
    for item in done:
        for fault in item.run.faults:
            asked = item.run.conversation.messages[fault.message - 2]
            assert "Shall I go ahead" not in (asked.content or "")


def test_a_refused_call_is_repeated_unchanged_and_then_dropped(domain, plans, run_all) -> None:
    settings = always(ErrorKind.REPEATED_FAILED_CALL, repeats=2)
    for item in run_all(domain, plans, settings):
        for fault in item.run.faults:
            same = [w for w in writes_made(domain, item) if w == fault_json(fault)["call"]]
            assert len(same) == 3 and not fault.accepted and not fault.mended


def test_a_wrong_object_is_one_value_of_another(domain, plans, run_all) -> None:
    made = 0
    for item in run_all(domain, plans, always(ErrorKind.WRONG_OBJECT)):
        for fault in item.run.faults:
            made += 1
            assert len(fault.wrong) == 1
            same = {k: v for k, v in fault.call.arguments.items() if k not in fault.wrong}
            assert same == {k: v for k, v in fault.gold.arguments.items() if k not in fault.wrong}
    assert made >= 10


def test_recovery_mends_refused_calls(domain, plans, run_all) -> None:
    settings = Settings(rates={ErrorKind.SKIPPED_READ: 1.0}, recovery=1.0)
    faults = [fault for item in run_all(domain, plans, settings) for fault in item.run.faults]
    refused = [fault for fault in faults if not fault.accepted]
    assert refused and sum(fault.mended for fault in refused) >= 0.9 * len(refused)


def test_the_same_seed_is_the_same_run(domain: Domain, plans: list[TaskPlan]) -> None:
    settings = load_settings()
    faults = FaultMaker(domain, settings)
    runs = [
        [Executor(domain, plan, faults, settings, trial).run().conversation.history for plan in plans]
        for trial in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_a_gate_that_allows_changes_nothing(domain, plans, run_all, fake_gate, decide) -> None:
    settings = load_settings()
    gate = fake_gate(lambda call, messages: decide("allow"))
    alone, gated = run_all(domain, plans, settings), run_all(domain, plans, settings, gate)
    assert gate.asked
    for left, right in zip(alone, gated, strict=True):
        assert left.run.conversation.history == right.run.conversation.history
        assert left.run.faults == right.run.faults


def test_the_gate_sees_the_call_and_the_history_before_it(domain, plans, run_all, fake_gate, decide) -> None:
    seen = []

    def judge(call, messages):
        seen.append((call, messages))
        return decide("allow")

    run_all(domain, plans[:6], Settings(), fake_gate(judge))
    assert seen
    for call, messages in seen:
        assert messages[0] == {"role": "system", "content": domain.policy}
        assert messages[-1]["role"] == "user" and messages[-1]["content"].startswith("Yes")
        assert set(json.loads(call["function"]["arguments"])) >= set(domain.required[call["function"]["name"]])
        assert all(call["id"] != made["id"] for m in messages for made in m.get("tool_calls") or [])


def test_block_keeps_every_write_away(domain, plans, run_all, fake_gate, decide) -> None:
    done = run_all(domain, plans, load_settings(), fake_gate(lambda call, messages: decide("block")))
    assert not any(writes_made(domain, item) for item in done)
    assert not any(fault.reached for item in done for fault in item.run.faults)
    due = [write for item in done for write in item.run.writes if write.due]
    assert due and not any(write.made for write in due) and all(write.revised == 1 for write in due)


def test_transfer_hands_over_and_ends(domain, plans, run_all, fake_gate, decide) -> None:
    gate = fake_gate(lambda call, messages: decide("transfer"))
    with_writes = [plan for plan in plans if any(step.write for step in plan.steps)]
    for item in run_all(domain, with_writes, always(ErrorKind.WRONG_OBJECT), gate):
        history = item.run.conversation.history
        assert [m for m in history if m["role"] == "tool"][-1]["name"] == HANDOVER
        assert len(item.run.writes) == 1 and history[-1]["role"] == "user"


def test_revision_is_bounded(domain, plans, run_all, fake_gate, decide) -> None:
    gate = fake_gate(lambda call, messages: decide("revise", {"kind": "ask_user", "text": "Are you sure?"}))
    plan = next(plan for plan in plans if sum(bool(step.write) for step in plan.steps) == 1)
    [item] = run_all(domain, [plan], Settings(max_revisions=2), gate)
    assert len(gate.asked) == 3
    asked = [m for m in item.run.conversation.history if m["content"] == "Are you sure?"]
    assert len(asked) == 2 and not item.run.writes[0].made


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_an_uncandidated_correction_goes_back_to_the_source(
    domain, plans, run_all, fake_gate, decide, kind: ErrorKind
) -> None:
    """With a gate that names just what is wrong, every error is put right."""
    settings = always(kind)
    corrected = 0
    for item in run_all(domain, plans, settings):
        if len(item.run.faults) != 1:
            continue
        fault = item.run.faults[0]
        wrong = fault_json(fault)["call"]["arguments"]

        def judge(call, messages, fault=fault, wrong=wrong):
            todo = [
                {"kind": "correct_argument", "argument": name, "candidates": (), "source": "history"}
                for name in fault.wrong
            ]
            return decide("revise", *todo) if json.loads(call["function"]["arguments"]) == wrong else decide("allow")

        [gated] = run_all(domain, [item.plan], settings, fake_gate(judge))
        corrected += 1
        assert not gated.run.faults[0].reached and gated.run.faults[0].mended
        assert gated.succeeded or len(gated.run.faults) > 1  # a mended step can give a later one its occasion
    assert corrected >= 4


def test_candidates_decide_what_is_filled_in(domain, plans, run_all, fake_gate, decide) -> None:
    step_plan, step, name = next(
        (plan, step, name)
        for plan in plans
        for step in plan.steps
        if step.write
        for name, value in step.write.arguments.items()
        if isinstance(value, str)
    )
    gold = step.write.arguments[name]
    for candidates, filled in (
        (("other_1",), "other_1"),
        (("other_1", gold), gold),
        (("other_1", "other_2"), "other_1"),
    ):
        todo = {"kind": "correct_argument", "argument": name, "candidates": candidates, "source": ""}
        answers = iter([decide("revise", todo)])
        gate = fake_gate(lambda call, messages, answers=answers: next(answers, decide("block")))
        run_all(domain, [step_plan], Settings(), gate)
        assert json.loads(gate.asked[1]["function"]["arguments"])[name] == filled


def test_a_value_that_is_named_wrong_is_replaced_inside_a_list(run_all, domain, plans, fake_gate, decide) -> None:
    found = (
        (plan, step, name)
        for plan in plans
        for step in plan.steps
        if step.write
        for name, value in step.write.arguments.items()
        if isinstance(value, list)
    )
    plan, step, name = next(found, (None, None, ""))
    if step is None:
        pytest.skip(f"no write of {domain.name} takes a list")
    text = json.dumps(step.write.arguments[name])
    leaf = next(part for part in json.loads(text) if part)
    leaf = leaf if isinstance(leaf, str) else next(iter(leaf.values()))
    todo = {"kind": "correct_argument", "argument": f"{name}[]", "value": leaf, "candidates": ("new",), "source": ""}

    def judge(call, messages):
        arguments = json.loads(call["function"]["arguments"])
        held = json.dumps(arguments.get(name)) == text
        return decide("revise", todo) if held else decide("block" if "new" in json.dumps(arguments) else "allow")

    gate = fake_gate(judge)
    run_all(domain, [plan], Settings(), gate)
    revised = [json.dumps(json.loads(call["function"]["arguments"]).get(name)) for call in gate.asked]
    assert text.replace(json.dumps(leaf), '"new"') in revised


def test_a_call_that_is_named_is_made_and_teaches(domain, plans, run_all, fake_gate, decide) -> None:
    """A guessed argument is filled in rightly once a call that the gate named has shown it."""
    settings = always(ErrorKind.SKIPPED_READ)
    by_task = {item.run.task_id: item for item in run_all(domain, plans, settings)}
    taught = 0
    for plan in plans:
        item = by_task[plan.task.id]
        first = next((step for step in plan.steps if step.write), None)
        if first is None or len(item.run.faults) != 1 or item.run.faults[0].step != first.index:
            continue
        reads = [{"kind": "call", "tool": read.call.tool, "arguments": read.call.arguments} for read in first.reads]
        wrong = json.dumps(item.run.faults[0].call.arguments)

        def judge(call, messages, wrong=wrong, reads=reads):
            same = json.dumps(json.loads(call["function"]["arguments"])) == wrong
            return decide("revise", *reads) if same else decide("allow")

        [gated] = run_all(domain, [plan], settings, fake_gate(judge))
        taught += gated.run.faults[0].mended and not gated.run.faults[0].reached
    assert taught >= 2


def test_a_wrong_object_is_believed_in_whatever_is_read(domain, plans, run_all, fake_gate, decide) -> None:
    settings = always(ErrorKind.WRONG_OBJECT)
    plan, write = next(
        (plan, writes[0])
        for plan in plans
        if len(writes := [step for step in plan.steps if step.write]) == 1 and writes[0].reads
    )
    reads = [{"kind": "call", "tool": r.call.tool, "arguments": r.call.arguments} for r in write.reads]
    gate = fake_gate(lambda call, messages: decide("revise", *reads))
    [item] = run_all(domain, [plan], settings, gate)
    assert len({call["function"]["arguments"] for call in gate.asked}) == 1
    assert not item.run.faults[0].reached and not item.run.faults[0].mended


def test_noticing_the_wrong_object_puts_it_right(domain, plans, run_all, fake_gate, decide) -> None:
    """With ``notices`` at 1, reading what the wrong argument names is enough; at 0 it never is."""
    for notices in (0.0, 1.0):
        settings = always(ErrorKind.WRONG_OBJECT, notices=notices)
        outcomes = []
        for item in run_all(domain, plans, settings):
            if not item.run.faults:
                continue
            fault = item.run.faults[0]
            wrong = fault_json(fault)["call"]["arguments"]
            readers = [
                {"kind": "call", "tool": tool, "arguments": {names[0]: wrong[names[0]]}}
                for tool, names in domain.required.items()
                if domain.effects[tool] is Effect.READ and len(names) == 1 and names[0] in fault.wrong
            ]
            if not readers:
                continue

            def judge(call, messages, wrong=wrong, readers=readers):
                same = json.loads(call["function"]["arguments"]) == wrong
                return decide("revise", *readers) if same else decide("allow")

            [gated] = run_all(domain, [item.plan], settings, fake_gate(judge))
            outcomes.append(gated.run.faults[0].mended)
        assert len(outcomes) >= 3 and all(mended == bool(notices) for mended in outcomes)


def test_a_gate_that_counts_revisions_is_told_of_them(domain: Domain, plans: list[TaskPlan], decide) -> None:
    class Counting:
        def __init__(self) -> None:
            self.told: list[int] = []

        def gate(self, tool_call, messages, *, tools=None, revisions=0):
            if domain.effects[tool_call["function"]["name"]] is not Effect.WRITE:
                return decide("allow")
            self.told.append(revisions)
            return decide("allow") if revisions == 2 else decide("revise", {"kind": "ask_user", "text": ""})

    gate = Counting()
    plan = next(plan for plan in plans if sum(bool(step.write) for step in plan.steps) == 1)
    settings = Settings()
    run = Executor(domain, plan, FaultMaker(domain, settings), settings, gate=gate).run()
    assert gate.told == [0, 1, 2] and run.writes[0].made and run.writes[0].revised == 2


def test_the_user_does_what_the_agent_cannot(run_all, decide, fake_gate) -> None:
    """The user's calls are made and scored, and the agent hears of them in words only."""
    domain = load_domain("telecom")
    plan = next(p for p in (plan_task(domain, task) for task in domain.tasks("test")) if p.steps[0].by_user)
    gate = fake_gate(lambda call, messages: decide("allow"))
    [item] = run_all(domain, [plan], Settings(), gate)
    own = [m for m in item.run.conversation.messages if m.role == "user" and m.tool_calls]
    assert [c.name for m in own for c in m.tool_calls] == [s.by_user.tool for s in plan.steps if s.by_user]
    assert all(call.requestor == "user" for message in own for call in message.tool_calls)
    assert item.succeeded
    told = [message for message in item.run.conversation.history if message["role"] == "user"]
    assert any(message["content"].startswith("I did that.") for message in told)
    assert all("tool_calls" not in message for message in told)
