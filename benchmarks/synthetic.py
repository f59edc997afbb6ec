"""Memories and conversations of any size, made up: the numbers of nodes, tools and edges are what a benchmark needs."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np

from fresh.conditions import CalledBefore, Confirmed, FieldIs, Grounded, ReadBefore, Within
from graph_schema.builder import GraphBuilder
from graph_schema.graph import ExperienceGraph, Run
from graph_schema.types import NodeType, Relation

SUBJECTS = [
    f"{a}{b}" for a in ("ware", "ship", "bill", "plan", "seat", "desk", "file", "mail") for b in ("", "set", "log")
]
READ_VERBS, WRITE_VERBS = (
    ("get", "find", "list", "search"),
    ("cancel", "update", "change", "book", "send", "close"),
)
WORDS = [
    f"{a}{b}{c}" for a in "bdfgklmn" for b in ("ar", "el", "im", "on", "ut") for c in ("ta", "ko", "sen", "vi", "ru")
]
NODES_PER_TOOL = 200


def tool_names(count: int) -> tuple[list[str], list[str]]:
    """Reads and writes, half each; the same names whatever the count."""
    reads = [f"{READ_VERBS[i % 4]}_{SUBJECTS[i // 4 % 24]}_{WORDS[i // 96 % 200]}" for i in range((count + 1) // 2)]
    writes = [f"{WRITE_VERBS[i % 6]}_{SUBJECTS[i // 6 % 24]}_{WORDS[i // 144 % 200]}" for i in range(count // 2)]
    return reads, writes


def make_graph(nodes: int, seed: int = 0) -> ExperienceGraph:
    """A memory of about so many nodes, a fifth of them tasks."""
    rng = random.Random(seed)
    builder = GraphBuilder()
    runs = [
        builder.add_run(Run(f"run{i}", f"made-up:shop/{i // 4}", "shop", "success", "nobody", "none", i))
        for i in range(max(20, nodes // 20))
    ]
    reads, writes = tool_names(max(10, nodes // NODES_PER_TOOL))
    actions: dict[str, list[int]] = {}
    per_tool = max(1, int(nodes * 0.8 / (len(reads) + len(writes))))
    for tool in reads:
        actions[tool] = _add_tool(builder, rng, runs, tool, "read", per_tool, reads)
    for tool in writes:
        actions[tool] = _add_tool(builder, rng, runs, tool, "write", per_tool, reads)
    _add_tasks(builder, rng, runs, actions, nodes // 5)
    effects = dict.fromkeys(reads, "read") | dict.fromkeys(writes, "write")
    return builder.build(settings={"effects": effects})


def _add_tool(
    builder: GraphBuilder,
    rng: random.Random,
    runs: list[int],
    tool: str,
    effect: str,
    size: int,
    reads: list[str],
) -> list[int]:
    node = builder.add_node(
        NodeType.TOOL, tool, text=f"{tool}: {_words(rng, 8)}", tool=tool,
        data={"effect": effect, "purpose": "", "parameters": ["order_id", "note"]},
    )  # fmt: skip
    source = "request" if effect == "read" else f"{reads[0]}:order.order_id"
    actions, errors = [], []
    for i in range(max(1, size * 2 // 10)):
        names = ["order_id"] + [f"option_{j}" for j in range(i)][:4] + ([f"extra_{i}"] if i > 4 else [])
        data = {"arguments": {"order_id": {"sources": [[source, 30], ["request", 5]]}}, "effect": effect}
        pattern = f"{tool}({', '.join(f'{n}=<{n.upper()}>' for n in names)})"
        action = builder.add_node(
            NodeType.ACTION, pattern, text=f"{tool.replace('_', ' ')} {_words(rng, 5)}", tool=tool, data=data
        )
        actions.append(action)
        for run in rng.sample(runs, 8):
            builder.count(action, run, success=4 if i == 0 else 1, failure=int(rng.random() < 0.2))
        builder.add_edge(action, Relation.USES, node, runs[0])
    for i in range(max(1, size * 2 // 10)):
        text = f"{tool}: {_words(rng, 6)}"
        seen = builder.add_node(NodeType.OBSERVATION, f"{text} {i}", text=text, tool=tool, data={"fields": []})
        builder.count(seen, rng.choice(runs), success=1)
        builder.add_edge(rng.choice(actions), Relation.RETURNS, seen, rng.choice(runs))
    for i in range(max(1, size * 2 // 10)):
        message = f"{_words(rng, 6)} <NUMBER> {i}"
        error = builder.add_node(
            NodeType.ERROR,
            f"{tool}: {message}",
            text=f"{tool}: {message}",
            tool=tool,
            data={"message": message},
        )
        errors.append(error)
        for run in rng.sample(runs, 3):
            builder.count(error, run, failure=1)
            builder.add_edge(rng.choice(actions), Relation.FAILS_BECAUSE, error, run)
    for i in range(max(1, size * 2 // 10)):
        _add_repair(builder, rng, runs, tool, errors, actions, reads, i)
    if effect == "write":
        _add_conditions(builder, rng, runs, tool, actions, reads, max(6, size * 2 // 10))
    return actions


def _add_repair(
    builder: GraphBuilder, rng: random.Random, runs: list[int], tool: str, errors: list[int], actions: list[int],
    reads: list[str], number: int,
) -> None:  # fmt: skip
    kind = ("change_arguments", "add_read", "fallback_tool")[number % 3]
    other = rng.choice(reads) if kind != "change_arguments" else ""
    data = {"kind": kind, "arguments": ["order_id"] if not other else [], "tool": other, "message": ""}
    node = builder.add_node(
        NodeType.REPAIR,
        f"{tool}|{number}|{kind}",
        text=f"{kind} {other} {_words(rng, 4)}",
        tool=tool,
        data=data,
    )
    run = rng.choice(runs)
    builder.count(node, run, success=1)
    builder.add_edge(rng.choice(errors), Relation.FIXED_BY, node, run)
    builder.add_edge(node, Relation.SUPPORTS, rng.choice(actions), run)


def _add_conditions(
    builder: GraphBuilder,
    rng: random.Random,
    runs: list[int],
    tool: str,
    actions: list[int],
    reads: list[str],
    count: int,
) -> None:
    conditions: list[Any] = [
        ReadBefore(tool=reads[0], parameter="order_id", argument="order_id"),
        Grounded(argument="order_id"),
        Confirmed(),
        FieldIs(argument="order_id", path="status", values=("pending",)),
        Within(argument="item_ids[]", anchor="order_id"),
    ]
    conditions += [CalledBefore(tool=read) for read in rng.sample(reads, min(len(reads), max(0, count - 5)))]
    for number, condition in enumerate(conditions):
        node = builder.add_node(
            NodeType.PRECONDITION, f"{tool}|{condition.model_dump_json()}", text=condition.text(tool), tool=tool,
            data={"condition": condition.model_dump(mode="json")},
        )  # fmt: skip
        for run in rng.sample(runs, min(len(runs), 20)):
            rare = number > 4
            builder.count(node, run, success=1, violated_success=int(rare), violated_failure=int(not rare))
        for action in rng.sample(actions, min(3, len(actions))):
            builder.add_edge(action, Relation.REQUIRES, node, runs[0])
            builder.add_edge(node, Relation.GUARDS, action, runs[0])


def _add_tasks(
    builder: GraphBuilder, rng: random.Random, runs: list[int], actions: dict[str, list[int]], count: int
) -> None:
    tools = list(actions)
    for i in range(count):
        sequence = rng.sample(tools, min(5, len(tools)))
        text = f"please {sequence[-1].replace('_', ' ')} {_words(rng, 12)}"
        node = builder.add_node(
            NodeType.TASK, f"made-up:shop/{i}", text=text, data={"domain": "shop", "tools": [sequence]}
        )
        run = runs[i % len(runs)]
        builder.count(node, run, success=1)
        for before, after in itertools.pairwise(sequence):
            builder.add_edge(node, Relation.CONTAINS, actions[before][0], run)
            builder.add_edge(actions[before][0], Relation.PRECEDES, actions[after][0], run)


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def make_messages(nodes: int, turns: int = 30, seed: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any], list[Any]]:
    """A conversation of so many messages, the write that comes next, and the tools offered."""
    rng = random.Random(seed)
    reads, writes = tool_names(max(10, nodes // NODES_PER_TOOL))
    offered = reads[:8] + writes[:8]
    write = writes[rng.randrange(min(8, len(writes)))]
    order = f"#W{rng.randrange(10**6, 10**7)}"
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Help the customer."},
        {"role": "user", "content": f"Please {write.replace('_', ' ')} my order {order}, {_words(rng, 20)}."},
    ]
    while len(messages) < turns - 2:
        tool = reads[0] if len(messages) < 4 else rng.choice(reads[:8])
        call_id = f"call_{len(messages)}"
        asked = order if tool == reads[0] else f"#W{rng.randrange(10**6, 10**7)}"
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps({"order_id": asked})},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call_id, "content": json.dumps(_order(rng, asked))})
    messages.append(
        {
            "role": "assistant",
            "content": f"I am about to {write.replace('_', ' ')} {order}. Shall I go ahead?",
        }
    )
    messages.append({"role": "user", "content": "Yes, please go ahead."})
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": name.replace("_", " "),
                "parameters": {
                    "type": "object",
                    "properties": {"order_id": {"type": "string"}, "note": {"type": "string"}},
                    "required": ["order_id"],
                },
            },
        }
        for name in offered
    ]
    proposed = {
        "id": "call_now",
        "type": "function",
        "function": {"name": write, "arguments": json.dumps({"order_id": order})},
    }
    return messages, proposed, tools


def _order(rng: random.Random, order: str) -> dict[str, Any]:
    items = [
        {
            "item_id": str(rng.randrange(10**9, 10**10)),
            "name": _words(rng, 2),
            "price": rng.randrange(1, 900),
            "size": "m",
        }
        for _ in range(5)
    ]
    return {
        "order_id": order,
        "status": "pending",
        "customer_id": f"ann_{rng.randrange(10**4)}",
        "address": {
            "street": _words(rng, 2),
            "city": _words(rng, 1),
            "code": str(rng.randrange(10**4, 10**5)),
        },
        "items": items,
        "payments": [{"method": f"card_{rng.randrange(10**6)}", "amount": rng.randrange(1, 900)}],
    }


def with_features(graph: ExperienceGraph, width: int) -> ExperienceGraph:
    """The graph with random embeddings of a width, and random statistics."""
    rng = np.random.default_rng(0)
    text = rng.standard_normal((len(graph), width)).astype(np.float16)
    stat = rng.random((len(graph), 40), dtype=np.float32)
    return ExperienceGraph(graph.tables, settings=graph.settings, features={"text": text, "stat": stat})
