"""A small made-up memory, its tools, and chats about it, for the tests of the gate and the guidance."""

from __future__ import annotations

import json
from typing import Any

from fresh.conditions import CalledBefore, Confirmed, FieldIs, Grounded, ReadBefore, Within
from graph_schema.builder import GraphBuilder
from graph_schema.graph import ExperienceGraph, Run
from graph_schema.types import NodeType, Relation

ORDERS = {
    "#W111": {
        "order_id": "#W111",
        "status": "pending",
        "customer_id": "ann_77",
        "items": [{"item_id": "9001", "name": "pot"}, {"item_id": "9002", "name": "fern"}],
    },
    "#W222": {
        "order_id": "#W222",
        "status": "delivered",
        "customer_id": "ann_77",
        "items": [{"item_id": "9003", "name": "rose"}],
    },
    "#W333": {
        "order_id": "#W333",
        "status": "pending",
        "customer_id": "ann_77",
        "items": [{"item_id": "9004", "name": "moss"}],
    },
}
SECRET = "#W98765"  # an identifier of an old run that must never be shown
RUNS = 40


def function(name: str, description: str, **properties: Any) -> dict[str, Any]:
    required = [key for key, value in properties.items() if not value.pop("optional", False)]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TEXT = {"type": "string"}
TOOLS = [
    function("find_customer", "Find a customer", email=dict(TEXT)),
    function("get_order", "Show an order", order_id=dict(TEXT)),
    function(
        "cancel_order",
        "Cancel an order",
        order_id=dict(TEXT),
        reason={"type": "string", "enum": ["too late", "mistake"]},
    ),
    function(
        "remove_items",
        "Remove items",
        order_id=dict(TEXT),
        item_ids={"type": "array", "items": {"type": "string"}},
    ),
    function("transfer_to_person", "Hand the case over to a human", summary=dict(TEXT)),
]


class _Shop:
    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self.runs = [
            self.builder.add_run(Run(f"run{i:02}", f"made:shop/{i}", "shop", "success", "x", "f", i))
            for i in range(RUNS)
        ]

    def tool(self, name: str, effect: str, sources: dict[str, list[Any]], **counts: int) -> int:
        arguments = {key: {"sources": found} for key, found in sources.items()}
        self.builder.add_node(
            NodeType.TOOL,
            name,
            text=name,
            tool=name,
            data={"effect": effect, "parameters": sorted(k.replace("[]", "") for k in sources)},
        )
        inside = ", ".join(f"{key.replace('[]', '')}=<{key.upper()}>" for key in sources)
        action = self.builder.add_node(
            NodeType.ACTION,
            f"{name}({inside})",
            text=name.replace("_", " "),
            tool=name,
            data={"arguments": arguments, "effect": effect},
        )
        for name_of_count, value in (counts or {"success": 30}).items():
            for run in self.runs[:value]:
                self.builder.count(action, run, **{name_of_count: 1})
        return action

    def rule(
        self,
        tool: str,
        condition: Any,
        held: int = 30,
        broken: int = 0,
        caught: int = 5,
        held_failed: int = 1,
    ) -> int:
        node = self.builder.add_node(
            NodeType.PRECONDITION,
            f"{tool}|{condition.model_dump_json()}",
            text=condition.text(tool),
            tool=tool,
            data={"condition": condition.model_dump(mode="json")},
        )
        for name, value in (
            ("success", held),
            ("violated_success", broken),
            ("violated_failure", caught),
            ("failure", held_failed),
        ):
            for run in self.runs[:value]:
                self.builder.count(node, run, **{name: 1})
        return node

    def error(self, tool: str, message: str, times: int = 6) -> int:
        node = self.builder.add_node(
            NodeType.ERROR,
            f"{tool}: {message}",
            text=f"{tool}: {message}",
            tool=tool,
            data={"message": message},
        )
        for run in self.runs[:times]:
            self.builder.count(node, run, failure=1)
        return node

    def repair(
        self,
        error: int,
        tool: str,
        kind: str,
        arguments: tuple[str, ...] = (),
        other: str = "",
        times: int = 4,
    ) -> None:
        node = self.builder.add_node(
            NodeType.REPAIR,
            f"{tool}|{error}|{kind}|{arguments}|{other}",
            text=kind,
            tool=tool,
            data={"kind": kind, "arguments": list(arguments), "tool": other, "message": ""},
        )
        for run in self.runs[:times]:
            self.builder.count(node, run, success=1)
            self.builder.add_edge(error, Relation.FIXED_BY, node, run)


def make_graph(*, rules: bool = True) -> ExperienceGraph:
    shop = _Shop()
    find = shop.tool("find_customer", "read", {"email": [["request", 30]]})
    read = shop.tool("get_order", "read", {"order_id": [["request", 30]]})
    cancel = shop.tool("cancel_order", "write", {"order_id": [["get_order:order_id", 30]], "reason": [["request", 30]]})
    remove = shop.tool(
        "remove_items",
        "write",
        {"order_id": [["get_order:order_id", 30]], "item_ids[]": [["get_order:items[].item_id", 30]]},
    )
    shop.tool("transfer_to_person", "other", {"summary": [["nowhere", 10]]}, success=10)
    shop.tool("burn_order", "write", {"order_id": [["request", 4]]}, failure=12)
    if rules:
        for tool in ("cancel_order", "remove_items"):
            shop.rule(tool, ReadBefore(tool="get_order", parameter="order_id", argument="order_id"))
            shop.rule(tool, Grounded(argument="order_id"))
            shop.rule(tool, Confirmed())
            shop.rule(tool, FieldIs(argument="order_id", path="status", values=("pending",)))
        shop.rule("remove_items", Grounded(argument="item_ids[]"))
        shop.rule("remove_items", Within(argument="item_ids[]", anchor="order_id"))
        shop.rule("remove_items", CalledBefore(tool="find_customer"), held=20, broken=15)
    wrong = shop.error("get_order", "order not found")
    shop.repair(wrong, "get_order", "change_arguments", ("order_id",))
    locked = shop.error("cancel_order", "order is locked by another process")
    shop.repair(locked, "cancel_order", "add_read", other="find_customer")
    shop.error("cancel_order", f"the order {SECRET} of jo@old.example on 2023-01-02 costs $77.10")
    for i, run in enumerate(shop.runs[:20]):
        last, name = (cancel, "cancel_order") if i % 2 else (remove, "remove_items")
        words = "cancel my order please" if i % 2 else "remove something from my order"
        task = shop.builder.add_node(
            NodeType.TASK,
            f"made:shop/{i}",
            text=f"{words} {i}",
            data={"domain": "shop", "tools": [["find_customer", "get_order", name]]},
        )
        shop.builder.count(task, run, success=1)
        for action in (find, read, last):
            shop.builder.add_edge(task, Relation.CONTAINS, action, run)
        shop.builder.add_edge(find, Relation.PRECEDES, read, run)
        shop.builder.add_edge(read, Relation.PRECEDES, last, run)
    return shop.builder.build(settings={"effects": {}})


class Chat:
    """Messages under construction."""

    def __init__(
        self, request: str = "Hello, please cancel my order #W111, it was a mistake. I am ann@new.example"
    ) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": request}]

    def user(self, text: str) -> Chat:
        self.messages.append({"role": "user", "content": text})
        return self

    def agent(self, text: str) -> Chat:
        self.messages.append({"role": "assistant", "content": text})
        return self

    def call(self, tool: str, arguments: Any, result: Any) -> Chat:
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call(tool, arguments)]})
        content = result if isinstance(result, str) else json.dumps(result)
        self.messages.append({"role": "tool", "tool_call_id": "c1", "content": content})
        return self

    def read(self, order: str) -> Chat:
        return self.call("get_order", {"order_id": order}, ORDERS[order])

    def agreed(self) -> Chat:
        return self.agent("Shall I go ahead?").user("Yes, please do.")


def call(tool: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": "c1", "type": "function", "function": {"name": tool, "arguments": text}}
