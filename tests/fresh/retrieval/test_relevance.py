from __future__ import annotations

import numpy as np

from fresh.retrieval.relevance import NEEDED, WARNED, gold_to_come, grades, task_writes
from graph_schema.trajectory import Feedback, Outcome
from graph_schema.types import NodeType
from tests.retrieval_world import corpus, run

CORPUS = corpus()
VIEW = CORPUS.view(range(24))


def test_what_is_needed_shrinks_as_the_run_goes_on() -> None:
    points = CORPUS.points[1]
    assert points[0].needed == {"find_member", "get_loan", "renew_loan"}
    assert [len(p.needed) for p in points] == sorted((len(p.needed) for p in points), reverse=True)
    assert points[-1].needed == {"renew_loan"}


def test_errors_to_come_count_until_they_are_made() -> None:
    points = CORPUS.points[0]  # its first write fails
    assert points[0].errors == {"renew_loan: no such loan"}
    failed_at = next(i for i, p in enumerate(points) if not p.errors)
    assert all(not p.errors for p in points[failed_at:])


def test_grades() -> None:
    truth = grades(VIEW, CORPUS.points[0][0])
    graph = VIEW.graph
    for node_type in (NodeType.ACTION, NodeType.PRECONDITION, NodeType.REPAIR):
        for node in graph.of_tool("renew_loan", node_type):
            wanted = NEEDED if node_type is not NodeType.ACTION or graph.node(node).success else 0
            assert truth[node] == wanted
    error = graph.find(NodeType.ERROR, "renew_loan: no such loan")
    assert error is not None and truth[error] == WARNED
    assert not truth[graph.of_tool("pay_fine")].any()
    assert not truth[list(graph.indices(NodeType.TASK))].any()


def test_each_call_carries_out_one_gold_action() -> None:
    trajectory = run(1, "pay_fine")
    assert trajectory.gold is not None
    calls = [call for _, call in trajectory.calls()]
    twice = trajectory.gold + trajectory.gold[:1]
    assert [g.tool for g in gold_to_come(twice, calls)] == ["find_member"]
    assert len(gold_to_come(trajectory.gold, calls[:1])) == 2


def test_without_gold_only_a_successful_run_says_what_is_needed() -> None:
    good = run(1, "pay_fine", gold=False)
    failed = good.model_copy(update={"id": "failed", "feedback": Feedback(outcome=Outcome.FAILURE)})
    from fresh.retrieval.corpus import Corpus
    from fresh.retrieval.encoder import HashedEncoder

    found = Corpus([good, failed], HashedEncoder(16))
    by_id = dict(zip([r.id for r in found.runs], found.points, strict=True))
    assert by_id[good.id][0].needed == {"find_member", "get_loan", "pay_fine"}
    assert by_id["failed"] == []


def test_writes_of_runs_and_tasks() -> None:
    assert CORPUS.good_writes[0] == {"renew_loan"}
    writes = task_writes(VIEW)
    assert {next(iter(w)) for w in writes if w} == {"renew_loan", "cancel_hold", "pay_fine", "update_address"}
    assert len(writes) == VIEW.num_tasks


def test_drawing_of_points_depends_on_the_run_alone() -> None:
    other = corpus(16)
    assert [p.turn for p in CORPUS.some_points(3, 2)] == [p.turn for p in other.some_points(3, 2)]
    assert len(CORPUS.some_points(3, 2)) == 2
    assert np.unique([p.turn for p in CORPUS.some_points(3, 99)]).size == len(CORPUS.points[3])
