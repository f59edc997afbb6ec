from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hand_made import Refused, effect_of, run, says, step, user

from fresh.conditions import (
    Asked,
    AtMost,
    CalledBefore,
    ComesFrom,
    Confirmed,
    FieldIs,
    FieldTest,
    Grounded,
    Never,
    ReadBefore,
    SameCount,
    SingledOut,
    Together,
    Within,
    parse_condition,
)
from fresh.history import RunIndex
from fresh.mining import EffectResolver, Thresholds, credit_run, mine
from fresh.mining.evidence import run_evidence
from fresh.mining.patterns import action_pattern
from fresh.mining.preconditions import MinedCondition, mine_preconditions
from fresh.mining.use import PARTICULAR, Use, held_in, use_evidence
from graph_schema import Effect, NodeType, Outcome, Trajectory, Turn

READS = frozenset({"look", "list_all"})


def book(number: int, state: str = "in", **more: object) -> dict[str, object]:
    return {"book": f"BK-{number}", "state": state, "shelf": {"place": "hall"}, **more}


def loan(
    number: int,
    *,
    look: bool = True,
    asked: bool = True,
    wrong: int | None = None,
    state: str = "in",
    good: bool = True,
) -> Trajectory:
    """A run that lends a book of its own."""
    turns: list[Turn] = [user("I want a book")]
    if look:
        turns.append(step("look", {"book": f"BK-{number}"}, book(number, state)))
    turns += [says("Shall I?"), user("Yes, please")] if asked else []
    turns.append(step("lend", {"book": f"BK-{wrong or number}"}))
    gold = [("lend", {"book": f"BK-{number}"})] if good else [("end", {"book": "BK-0"})]
    outcome = Outcome.SUCCESS if good else Outcome.FAILURE
    return run(*turns, name=f"r{number}", task=f"t{number}", outcome=outcome, gold=gold)


def mined(runs: list[Trajectory], thresholds: Thresholds | None = None) -> dict[str, MinedCondition]:
    uses = [use for r in runs for use in run_evidence(r, effect_of).uses]
    found = mine_preconditions(uses, thresholds or Thresholds(), READS)
    assert len({m.condition for m in found}) == len(found)
    return {str(m.condition.kind): m for m in found}


class TestCounting:
    def test_reads_and_agreement_with_counts_by_hand(self) -> None:
        good = [loan(n) for n in range(10, 14)]
        unread = [loan(n, look=False, good=False) for n in range(20, 23)]
        unasked = [loan(n, asked=False, good=False) for n in range(30, 32)]
        found = mined([*good, *unread, *unasked])
        read = found["read_before"]
        assert read.condition == ReadBefore(tool="look", parameter="book", argument="book")
        assert (read.held, read.violated) == ((4, 2), (0, 3))
        assert (read.necessity, read.caught, read.confidence) == (1.0, 3 / 5, 4 / 6)
        assert read.lift == pytest.approx((4 / 6) / (4 / 9))
        agreed = found["confirmed"]
        assert (agreed.held, agreed.violated) == ((4, 3), (0, 2))
        grounded = found["grounded"]
        assert (grounded.held, grounded.violated) == ((4, 2), (0, 3))
        assert read.tasks == 4
        assert read.patterns == {"lend(book=<BOOK>)"}
        assert read.by_run["r10"] == (1, 0, 0, 0) and read.by_run["r20"] == (0, 0, 0, 1)

    def test_what_most_verified_uses_do_without_is_no_requirement(self) -> None:
        half = [loan(n, asked=n % 2 == 0) for n in range(10, 18)]
        assert "confirmed" not in mined(half)
        assert "read_before" in mined(half)

    def test_support_and_tasks_have_a_floor(self) -> None:
        assert mined([loan(n) for n in range(10, 12)]) == {}
        assert mined([loan(n) for n in range(10, 13)]) != {}
        one_task = [loan(n).model_copy(update={"task_id": "t"}) for n in range(10, 15)]
        assert mined(one_task) == {}

    def test_unknown_uses_count_for_nothing(self) -> None:
        unknown = loan(40, look=False).model_copy(
            update={"feedback": run(outcome=Outcome.UNKNOWN).feedback, "gold": None}
        )
        runs = [loan(n) for n in range(10, 14)]
        before, after = mined(runs), mined([*runs, unknown])
        assert {k: (m.held, m.violated) for k, m in before.items()} == {
            k: (m.held, m.violated) for k, m in after.items()
        }

    def test_a_repeated_failure_is_counted_once(self) -> None:
        refused = step("lend", {"book": "BK-9"}, Refused("not found"))
        failed = run(user("x"), refused, refused, refused, name="f", task="f", outcome=Outcome.FAILURE, gold=[])
        found = mined([*[loan(n) for n in range(10, 14)], failed])
        assert found["read_before"].violated == (0, 1)

    def test_a_read_that_was_refused_is_no_read(self) -> None:
        turns = (step("look", {"book": "BK-50"}, Refused("not found")), step("lend", {"book": "BK-50"}))
        failed = run(user("x"), *turns, name="f", task="f", outcome=Outcome.FAILURE, gold=[])
        assert mined([*[loan(n) for n in range(10, 14)], failed])["read_before"].violated == (0, 1)


class TestKinds:
    def test_having_called_a_tool_at_all_needs_contrast(self) -> None:
        def listed(number: int, lists: bool, good: bool) -> Trajectory:
            turns = [user(f"BK-{number} please")] + ([step("list_all", {}, ["hall", "yard"])] if lists else [])
            return run(
                *turns,
                step("lend", {"book": f"BK-{number}"}),
                name=f"r{number}",
                task=f"t{number}",
                outcome=Outcome.SUCCESS if good else Outcome.FAILURE,
                gold=None if good else [],
            )

        always = [listed(n, True, True) for n in range(10, 14)]
        assert "called_before" not in mined(always)
        found = mined([*always, *[listed(n, False, False) for n in range(20, 22)]])
        assert found["called_before"].condition == CalledBefore(tool="list_all")
        assert found["called_before"].caught == 1.0

    def test_a_write_is_never_asked_for_first(self) -> None:
        runs = []
        for n in range(10, 14):
            other = step("end", {"book": f"BK-{n}"})
            runs.append(run(user(f"BK-{n}"), other, step("lend", {"book": f"BK-{n}"}), name=f"r{n}", task=f"t{n}"))
        conditions = [
            m.condition
            for m in mine_preconditions((u for r in runs for u in run_evidence(r, effect_of).uses), Thresholds(), READS)
        ]
        assert conditions
        assert not any(isinstance(c, ReadBefore | CalledBefore) for c in conditions)

    @pytest.mark.parametrize("via", ["", "owner"])
    def test_an_argument_that_belongs_to_the_object_another_names(self, via: str) -> None:
        def lend(n: int, card: str, good: bool) -> Trajectory:
            cards = {"cards": {f"card_{n}": {"kind": "paper"}, f"card_{n + 500}": {"kind": "chip"}}}
            shown = book(n, owner=f"MB-{n}") | ({} if via else cards)
            reader = step("list_all", {"owner": f"MB-{n}"}, {"owner": f"MB-{n}", **cards}) if via else says("I see")
            return run(
                user(f"BK-{n} with card_900"),
                step("look", {"book": f"BK-{n}"}, shown),
                reader,
                step("lend", {"book": f"BK-{n}", "card": card}),
                name=f"r{n}",
                task=f"t{n}",
                outcome=Outcome.SUCCESS if good else Outcome.FAILURE,
                gold=None if good else [],
            )

        runs = [lend(n, f"card_{n}", True) for n in range(10, 14)] + [lend(n, "card_900", False) for n in (20, 21)]
        uses = [use for r in runs for use in run_evidence(r, effect_of).uses]
        within = [m for m in mine_preconditions(uses, Thresholds(), READS) if isinstance(m.condition, Within)]
        wanted = Within(argument="card", anchor="book", via=via)
        found = next(m for m in within if m.condition == wanted)
        assert (found.held, found.violated) == ((4, 0), (0, 2))
        assert (found.caught, found.lift) == (1.0, pytest.approx(1 / (4 / 6)))

    def test_the_state_an_object_must_be_in(self) -> None:
        good = [loan(n) for n in range(10, 30)]
        bad = [loan(n, state=state, good=False) for n, state in enumerate(["out", "lost", "sold"] * 7, start=40)]
        found = mined([*good, *bad])["field_is"]
        assert found.condition == FieldIs(argument="book", path="state", values=("in",))
        assert (found.held, found.violated) == ((20, 0), (0, 21))
        assert found.caught == 1.0

    def test_agreement_by_chance_is_no_state(self) -> None:
        few = [loan(n) for n in range(10, 14)] + [loan(40, state="out", good=False)]
        assert "field_is" not in mined(few)
        everywhere = [loan(n) for n in range(10, 30)] + [loan(n, good=False) for n in range(40, 45)]
        assert "field_is" not in mined(everywhere)  # all books are in: nothing tells them apart

    def test_a_field_that_names_the_case_is_no_state(self) -> None:
        good = [loan(n, state=f"shelf {n}") for n in range(10, 30)]
        assert "field_is" not in mined([*good, *[loan(n, good=False) for n in range(40, 60)]])


def all_conditions(use: Use) -> list[object]:
    """Conditions about everything that a use has evidence of, and of what it has none of."""
    found: list[object] = [Confirmed(), CalledBefore(tool="nowhere to be found"), Grounded(argument="absent")]
    found += [CalledBefore(tool=tool) for tool in use.called]
    found += [Grounded(argument=path) for path in use.arguments]
    tools = {tool for tool, _, _ in use.reads} | {"nowhere"}
    parameters = {parameter for _, parameter, _ in use.reads} | {"id"}
    found += [ReadBefore(tool=t, parameter=p, argument=a) for t in tools for p in parameters for a in use.arguments]
    found += [Within(argument=a, anchor=b, via=v) for a, b, v in use.within]
    objects = {where: texts for where, texts in use.fields.items() if where[1]}
    found += [FieldIs(argument=a, path=p, values=tuple(set(v) - {PARTICULAR, ""})) for (a, p), v in objects.items()]
    found += [FieldIs(argument=a, path=p, values=("something else",)) for a, p in objects]
    found += [Together(argument=a, other=b, whole_result=w) for a, b, w in use.together]
    found += [SingledOut(argument=a) for a in use.singled]
    found += [SameCount(argument=a, other=b, path=p) for a, b, p in use.counts]
    found += [AtMost(argument=a, anchor=b, path=p) for a, b, p in use.at_most]
    found += [ComesFrom(argument=a, places=("request",)) for a in use.places]
    found += [ComesFrom(argument=a, places=tuple(p)) for a, places in use.places.items() for p in places]
    found += [Asked(words=(word,)) for word in [*sorted(use.words)[:3], "never said"]]
    found += [Never(tests=(test,)) for test in field_tests(use)]
    found += [Never(tests=pair) for pair in itertools.pairwise(list(field_tests(use)))]
    return found


def field_tests(use: Use) -> Iterator[FieldTest]:
    """Every operator on every field, and on one that is nowhere."""
    for (argument, path), texts in [*use.fields.items(), *(((a, "no.such"), ("x",)) for a in use.shown)]:
        values = tuple(sorted(set(texts) - {PARTICULAR, ""})) or ("x",)
        yield FieldTest(argument=argument, path=path, op="is", values=values[:1])
        yield FieldTest(argument=argument, path=path, op="is_not", values=values[:1])
        yield FieldTest(argument=argument, path=path, op="at_least", number=100)
        yield FieldTest(argument=argument, path=path, op="at_most", number=1)
        yield FieldTest(argument=argument, path=path, op="present")
        yield FieldTest(argument=argument, path=path, op="missing")


def disagreements(trajectory: Trajectory, effects: EffectResolver) -> tuple[int, list[str]]:
    """How many conditions were compared, and where the evidence and the history say different things."""
    index, labelled = RunIndex(trajectory.turns), effects.for_run(trajectory)
    compared, found = 0, []
    for item in credit_run(trajectory, lambda tool: effects.effect(tool, labelled), index):
        if item.effect is not Effect.WRITE or item.call.arguments is None:
            continue
        history = index.at(item.turn)
        pattern = action_pattern(item.call.tool, item.call.arguments)
        use = use_evidence("r", "t", item.call, pattern, item.credit.sign, history)
        for condition in all_conditions(use):
            compared += 1
            left, right = held_in(condition, use), condition.holds(item.call.arguments, history)  # type: ignore[arg-type, attr-defined]
            if left != right:
                found.append(f"{item.call.id} {item.call.arguments} {condition!r}: evidence {left}, history {right}")
    return compared, found


def test_evidence_agrees_with_the_history_on_the_desks(desk_runs: list[Trajectory]) -> None:
    total = 0
    for trajectory in desk_runs:
        compared, found = disagreements(trajectory, EffectResolver())
        assert found == []
        total += compared
    assert total > 1_000


def test_evidence_agrees_with_the_history_on_recorded_runs(airline_runs: list[Trajectory]) -> None:
    total = 0
    for trajectory in airline_runs[:120]:
        compared, found = disagreements(trajectory, EffectResolver())
        assert found == []
        total += compared
    assert total > 1_000


def test_a_stored_precondition_is_read_back_as_it_was(desk_runs: list[Trajectory]) -> None:
    graph = mine(desk_runs)
    nodes = list(graph.nodes(NodeType.PRECONDITION))
    assert {node.data["condition"]["kind"] for node in nodes} >= {"read_before", "confirmed", "grounded", "within"}
    for node in nodes:
        condition = parse_condition(node.data["condition"])
        assert condition.model_dump(mode="json") == node.data["condition"]
        assert node.text.startswith(condition.text(node.tool.replace("_", " "))[:20])
        assert node.data["support"] == node.success + node.failure
        assert node.data["confidence"] == pytest.approx(node.success / (node.success + node.failure), abs=1e-4)
        broken = node.violated_failure + node.failure
        assert node.data["caught"] == pytest.approx(node.violated_failure / broken if broken else 0, abs=1e-4)
