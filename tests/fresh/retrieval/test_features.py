from __future__ import annotations

import numpy as np
import pytest

from fresh.history import RunIndex
from fresh.retrieval.features import HISTORY_NAMES, MATCH_NAMES, MatchFeatures, encode_query
from fresh.retrieval.query import Query, make_query
from fresh.retrieval.view import GraphView
from graph_schema.errors import SchemaError
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import CallStatus
from graph_schema.types import NodeType
from tests.retrieval_world import corpus, run

CORPUS = corpus()
VIEW = CORPUS.view(range(24))
FEATURES = MatchFeatures(VIEW)


def columns(query: Query, *names: str) -> list[np.ndarray]:
    values = FEATURES.match(encode_query(query, CORPUS.encoder), np.arange(len(VIEW)))
    assert values.shape == (len(VIEW), len(MATCH_NAMES)) and np.isfinite(values).all()
    return [values[:, MATCH_NAMES.index(name)] for name in names]


def action(tool: str) -> int:
    return VIEW.graph.of_tool(tool, NodeType.ACTION)[0]


def at(turn: int, wish: str = "renew_loan", **options: object) -> Query:
    index = RunIndex(run(99, wish, **options).turns)  # type: ignore[arg-type]
    return make_query(index.at(min(turn, len(index.turns))))


def test_votes_point_at_what_like_requests_had_still_to_do() -> None:
    (left,) = columns(at(1), "left_sharp")
    assert left[action("renew_loan")] > left[action("pay_fine")]
    assert left[action("find_member")] > 0.9
    (left,) = columns(at(2), "left_sharp")
    assert left[action("find_member")] == 0.0, "it has been done"


def test_order_of_good_runs() -> None:
    follows, tool_follows = columns(at(2), "follows_last", "tool_follows_last")
    assert follows[action("get_loan")] == max(follows) > 0.5
    assert tool_follows[action("get_loan")] == max(tool_follows)
    follows, anything = columns(at(1), "follows_last", "follows_any")
    assert not follows.any() and not anything.any()


def test_failed_call_points_at_its_error_and_repairs() -> None:
    turns = run(99, "renew_loan", fails=True).turns
    failed_at = next(i for i, turn in enumerate(turns) for call in turn.calls if call.status is CallStatus.ERROR)
    overlap, same = columns(make_query(RunIndex(turns).at(failed_at + 1)), "error_overlap", "error_same_tool")
    error = VIEW.graph.of_tool("renew_loan", NodeType.ERROR)[0]
    assert overlap[error] == max(overlap) > 0 and same[error] == 1
    assert overlap[action("renew_loan")] == 0


def test_offered_tools() -> None:
    query = make_query(RunIndex(run(99, "pay_fine").turns).at(1), ["pay_fine", "unheard_of"])
    offered, missing = columns(query, "offered", "not_offered")
    assert offered[action("pay_fine")] == 1 and missing[action("pay_fine")] == 0
    assert offered[action("get_loan")] == 0 and missing[action("get_loan")] == 1
    offered, missing = columns(at(1), "offered", "not_offered")
    assert not offered.any() and not missing.any()


def test_some_nodes_alone_give_the_same_values_where_nothing_is_pooled() -> None:
    encoded = encode_query(at(3), CORPUS.encoder)
    whole = FEATURES.match(encoded, np.arange(len(VIEW)))
    part = np.array([0, 3, len(VIEW) - 1])
    own = [i for i, name in enumerate(MATCH_NAMES) if not name.startswith("tool_") or name.startswith("tool_follows")]
    np.testing.assert_allclose(FEATURES.match(encoded, part)[:, own], whole[part][:, own], atol=1e-6)


def test_seer_columns_agree_with_the_index() -> None:
    query = at(3)
    encoded = encode_query(query, CORPUS.encoder)
    scores = VIEW.seer.scores(encoded.request, [tool for tool, _ in query.used])
    best, mean = columns(query, "seer_s1_best", "seer_s1_mean")
    start, task = VIEW.node_tasks
    for node in (action("renew_loan"), action("find_member")):
        behind = scores[task[start[node] : start[node + 1]], 0]
        assert best[node] == pytest.approx(behind.max(), abs=1e-5)
        assert mean[node] == pytest.approx(behind.mean(), abs=1e-5)


def test_history_features() -> None:
    values = dict(zip(HISTORY_NAMES, FEATURES.history(at(99)), strict=True))
    assert values["calls"] == pytest.approx(np.log1p(3)) and values["wrote"] == pytest.approx(np.log(2))
    assert values["confirmed"] == 1 and values["in_error"] == 0
    assert not FEATURES.history(Query(parts=("",), spoken=False)).any()


def test_empty_query_and_unknown_tools_are_harmless() -> None:
    assert not np.any(columns(Query(parts=("",)), "bm25"))
    assert not np.any(columns(Query(parts=("x",), used=(("unheard_of", CallStatus.OK),) * 3), "tool_done"))


def test_empty_graph() -> None:
    empty = GraphView(CORPUS.view([]).graph)
    encoded = encode_query(at(1), CORPUS.encoder)
    assert MatchFeatures(empty).match(encoded, np.arange(0)).shape == (0, len(MATCH_NAMES))


def test_graph_without_embeddings_is_refused() -> None:
    graph = VIEW.graph
    bare = ExperienceGraph(graph.tables, features={"stat": graph.features["stat"]})
    with pytest.raises(SchemaError, match="no 'text' features"):
        GraphView(bare)


def test_large_memory_compares_evenly_spaced_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fresh.retrieval.view.MAX_COMPARED_TASKS", 4)
    monkeypatch.setattr("fresh.retrieval.features.MAX_COMPARED_TASKS", 4)
    monkeypatch.setattr("fresh.retrieval.features.NEAREST_TASKS", 3)
    view = GraphView(VIEW.graph)
    assert view.compared.tolist() == [0, 3, 6, 9] and len(view.seer) == 4 and view.num_tasks == 12
    values = MatchFeatures(view).match(encode_query(at(1), CORPUS.encoder), np.arange(len(view)))
    tasks = values[view.task_start : view.task_start + view.num_tasks, MATCH_NAMES.index("seer_s1_best")]
    assert set(np.flatnonzero(tasks)) <= {0, 3, 6, 9}
    left = values[:, MATCH_NAMES.index("left_sharp")]
    assert left[action("renew_loan")] > left[action("pay_fine")], "the nearest tasks are found among all"
