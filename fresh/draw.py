"""Drawing a part of a graph, for notebooks and reports. Needs the extra ``viz``."""

from __future__ import annotations

import textwrap
from collections import deque
from typing import TYPE_CHECKING, Any

from fresh.mining.patterns import in_words
from graph_schema.errors import MissingExtraError
from graph_schema.graph import ExperienceGraph, Node
from graph_schema.types import EDGE_TYPES, NODE_TYPES, NodeType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    NodeType.TASK: "#4c78a8",
    NodeType.TOOL: "#72b7b2",
    NodeType.ACTION: "#54a24b",
    NodeType.OBSERVATION: "#9d9da1",
    NodeType.ERROR: "#e45756",
    NodeType.PRECONDITION: "#eeca3b",
    NodeType.REPAIR: "#b279a2",
}
_SIDES = {
    NodeType.PRECONDITION: 0,
    NodeType.TASK: 0,
    NodeType.TOOL: 1,
    NodeType.ACTION: 1,
    NodeType.OBSERVATION: 1,
    NodeType.ERROR: 2,
    NodeType.REPAIR: 3,
}
"""Column of each type: what must hold, the action itself, what goes wrong, what helps."""
_ROW, _COLUMN, _WIDTH = 1.0, 3.6, 30


def neighbourhood(
    graph: ExperienceGraph, node: int, *, hops: int = 2, most: int = 24, types: tuple[NodeType, ...] = NODE_TYPES
) -> list[int]:
    """The nodes nearest to a node along edges in either direction, most frequent edges first.

    Args:
        graph: The graph.
        node: Where to start; always among the result.
        hops: How far to go.
        most: How many nodes at most.
        types: Which types to pass through and return.

    Raises:
        SchemaError: There is no such node.
    """
    graph.node(node)
    seen, waiting = {node: 0}, deque([node])
    source, target = graph.edge_index
    while waiting and len(seen) < most:
        here = waiting.popleft()
        if seen[here] == hops:
            continue
        edges = [(int(e), int(target[e])) for e in graph.out_edges(here)]
        edges += [(int(e), int(source[e])) for e in graph.in_edges(here)]
        for _, other in sorted(edges, key=lambda edge: (-int(graph.edge_count[edge[0]]), edge[1])):
            if other not in seen and NODE_TYPES[graph.type_codes[other]] in types and len(seen) < most:
                seen[other] = seen[here] + 1
                waiting.append(other)
    return sorted(seen)


def draw_neighbourhood(
    graph: ExperienceGraph,
    node: int,
    *,
    hops: int = 2,
    most: int = 24,
    types: tuple[NodeType, ...] = NODE_TYPES,
    axes: Axes | None = None,
) -> Axes:
    """Draws a node with its neighbours: one column for each role, one colour for each type, edges named once.

    Args:
        graph: The graph.
        node: The node in the middle; its box has a thick rim.
        hops: How far to go.
        most: How many nodes at most.
        types: Which types to show.
        axes: Where to draw; a new figure of fitting size when None.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        SchemaError: There is no such node.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "viz") from None
    chosen = [graph.node(i) for i in neighbourhood(graph, node, hops=hops, most=most, types=types)]
    labels = {n.index: _label(n) for n in chosen}
    places = _places(chosen, labels)
    if axes is None:
        width = max(x for x, _ in places.values()) + _COLUMN
        height = max(y for _, y in places.values()) - min(y for _, y in places.values()) + 2.4
        _, axes = plt.subplots(figsize=(max(7.0, width), max(3.5, 0.52 * height)), layout="constrained")
    boxes = {n.index: _draw_box(axes, n, labels[n.index], places[n.index], n.index == node) for n in chosen}
    _draw_edges(axes, graph, places, boxes)
    _finish(axes, graph, chosen, places)
    return axes


def _label(node: Node) -> str:
    """What a box says, over a few lines, with how often it went well and badly."""
    text = {
        NodeType.TOOL: lambda: in_words(node.key),
        NodeType.ACTION: lambda: in_words(node.tool) + "(" + ", ".join(node.data.get("arguments", {})) + ")",
        NodeType.OBSERVATION: lambda: "returns " + ", ".join(node.data.get("fields", [])),
        NodeType.ERROR: lambda: str(node.data.get("message", node.text)),
        NodeType.PRECONDITION: lambda: node.text.split(": ", 1)[-1],
        NodeType.REPAIR: lambda: node.text.split(f" from {in_words(node.tool)}: ", 1)[-1],
    }.get(node.type, lambda: node.text)()
    lines = textwrap.wrap(text, _WIDTH, max_lines=4, placeholder=" …")
    if node.success or node.failure:
        lines.append(f"+{node.success}  −{node.failure}")
    return "\n".join(lines)


def _places(nodes: list[Node], labels: dict[int, str]) -> dict[int, tuple[float, float]]:
    """Columns by role, each centred on zero; a box is as tall as its lines."""
    columns: dict[int, list[Node]] = {}
    for node in nodes:
        columns.setdefault(_SIDES[node.type], []).append(node)
    places: dict[int, tuple[float, float]] = {}
    for position, side in enumerate(sorted(columns)):
        heights = [0.55 * (labels[n.index].count("\n") + 1) + _ROW for n in columns[side]]
        top = sum(heights) / 2
        for node, height in zip(columns[side], heights, strict=True):
            places[node.index] = (position * _COLUMN, top - height / 2)
            top -= height
    return places


def _draw_box(axes: Axes, node: Node, label: str, place: tuple[float, float], marked: bool) -> Any:
    rim = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": COLOURS[node.type], "lw": 3 if marked else 1.5}
    text = axes.text(*place, label, ha="center", va="center", fontsize=8, bbox=rim, zorder=3)
    return text.get_bbox_patch()


def _draw_edges(
    axes: Axes, graph: ExperienceGraph, places: dict[int, tuple[float, float]], boxes: dict[int, Any]
) -> None:
    """One line for each pair of nodes, with a head at each end that an edge enters."""
    source, target = graph.edge_index
    edges = {(int(s), int(t)) for s, t in zip(source, target, strict=True)}
    for start, end in sorted(edges):
        if start not in places or end not in places or start == end:
            continue
        both = (end, start) in edges
        if both and end < start:
            continue
        same_column = places[start][0] == places[end][0]
        arrow: dict[str, Any] = {
            "arrowstyle": "<|-|>" if both else "-|>",
            "color": "#8a8a8a",
            "lw": 0.9,
            "patchA": boxes[start],
            "patchB": boxes[end],
            "shrinkA": 1,
            "shrinkB": 1,
            "connectionstyle": f"arc3,rad={0.5 if same_column else 0.0}",
        }
        axes.annotate("", xy=places[end], xytext=places[start], arrowprops=arrow, zorder=1)


def _finish(axes: Axes, graph: ExperienceGraph, nodes: list[Node], places: dict[int, tuple[float, float]]) -> None:
    from matplotlib.lines import Line2D

    source, target = graph.edge_index
    drawn = {
        str(EDGE_TYPES[graph.edge_relation[e]].relation).replace("_", " ")
        for e in range(graph.num_edges)
        if int(source[e]) in places and int(target[e]) in places
    }
    present = [t for t in NODE_TYPES if any(n.type is t for n in nodes)]
    handles = [Line2D([], [], marker="s", ls="", mfc="white", mec=COLOURS[t], mew=2, label=str(t)) for t in present]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=len(handles), frameon=False)
    if drawn:
        axes.set_title("edges: " + ", ".join(sorted(drawn)), fontsize=9, color="#555555")
    xs, ys = [x for x, _ in places.values()], [y for _, y in places.values()]
    axes.set_xlim(min(xs) - 0.5 * _COLUMN, max(xs) + 0.5 * _COLUMN)
    axes.set_ylim(min(ys) - 1.8, max(ys) + 1.8)
    axes.set_axis_off()
