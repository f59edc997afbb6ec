"""Random content for a builder, as a list of additions whose order must not matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from graph_schema import EDGE_TYPES, NODE_TYPES, ExperienceGraph, GraphBuilder, NodeType, Run
from graph_schema.graph import COUNTS

Step = Callable[["Additions"], None]


@dataclass
class Additions:
    """A builder with the handles of what was added so far."""

    builder: GraphBuilder = field(default_factory=GraphBuilder)

    def node(self, node_type: NodeType, name: str) -> int:
        tool = "" if node_type is NodeType.TASK else f"tool {name}"
        return self.builder.add_node(node_type, name, text=f"{node_type} {name}", tool=tool, data={"b": 1, "a": [name]})

    def run(self, number: int) -> int:
        return self.builder.add_run(make_run(number))


def make_run(number: int) -> Run:
    time = float("nan") if number % 3 == 0 else 1000.0 + number
    return Run(f"run{number}", f"t/{number % 2}", "d", "success", "", "f.jsonl", number, time)


def seen(node_type: NodeType, name: str, run: int, count_name: str, count: int) -> Step:
    def add(to: Additions) -> None:
        to.builder.count(to.node(node_type, name), to.run(run), **{count_name: count})

    return add


def joined(code: int, source: str, target: str, run: int, count: int) -> Step:
    edge = EDGE_TYPES[code]

    def add(to: Additions) -> None:
        ends = to.node(edge.source, source), to.node(edge.target, target)
        to.builder.add_edge(ends[0], edge.relation, ends[1], to.run(run), count)

    return add


_NAMES = st.sampled_from(["a", "b", "ä b", ""])
_STEPS = st.one_of(
    st.builds(seen, st.sampled_from(NODE_TYPES), _NAMES, st.integers(0, 4), st.sampled_from(COUNTS), st.integers(0, 3)),
    st.builds(joined, st.integers(0, len(EDGE_TYPES) - 1), _NAMES, _NAMES, st.integers(0, 4), st.integers(1, 3)),
)
STEPS = st.lists(_STEPS, max_size=25)


def build(steps: Sequence[Step]) -> ExperienceGraph:
    additions = Additions()
    for step in steps:
        step(additions)
    return additions.builder.build(settings={"effects": {"a": "read"}})


def content(graph: ExperienceGraph) -> dict[str, list[dict[str, object]]]:
    """Everything the tables hold; NaN as text, so that it equals itself."""
    tables = {name: getattr(graph.tables, name) for name in ("nodes", "edges", "runs", "provenance", "edge_provenance")}
    return {
        name: [{k: "nan" if v != v else v for k, v in row.items()} for row in table.to_pylist()]
        for name, table in tables.items()
    }
