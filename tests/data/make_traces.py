"""Writes the traces under ``desks/`` and ``dirty/``: runs of a scripted agent at two invented desks.

Run ``python tests/data/make_traces.py`` after a change; the same code always writes the same bytes. Each task has a
plan (look-ups, then one write that the customer agrees to). A run follows the plan, or makes one slip:

========== =========================================================================================
skip       the write before the look-up that shows its object, with a guessed number; noticed and mended
early      as ``skip``, and never noticed
repeat     the same refused call twice before the look-up that helps
mixed_up   a number that belongs to another object
hasty      the write without asking, and not what the customer wanted
blind      the write although the object's state forbids it
silent     the run ends before the write
========== =========================================================================================

A run's reward is 1.0 if the data at its end are what the task's own solution leaves.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from worlds import GARDEN_TOOLS, LIBRARY_TOOLS, World, garden, library  # noqa: E402

Call = tuple[str, dict[str, Any]]
START = 1_900_000_000
LONG_TASKS = (2, 5, 6)
LONG_SLIPS = (("", "skip", "mixed_up"), ("", "repeat", "hasty"), ("", "early", "repeat"))
RENEWAL_SLIPS = (("", "mixed_up", "skip"), ("", "repeat", ""), ("", "hasty"))
CANCEL_SLIPS = (("", "repeat", "mixed_up"), ("", "skip", "hasty"), ("", "repeat"))


@dataclass
class Task:
    """What a customer wants, how it is done, and what can go wrong.

    Attributes:
        reads: Look-ups, in order; the last one shows the object of the write.
        write: The write that solves the task; None where the right thing is to hand over.
        offer: What the agent says before it acts.
        wrong: For each slip, the faulty call.
        slips: The slip of each run; empty for a good one.
    """

    id: str
    world: Callable[[], World]
    domain: str
    request: str
    reads: list[Call]
    write: Call | None
    offer: str
    handover: str
    wrong: dict[str, Call] = field(default_factory=dict)
    slips: tuple[str, ...] = ()


class Talk:
    """A conversation in the making, over a world of its own."""

    def __init__(self, world: World, start: int) -> None:
        self.world = world
        self.clock = start
        self.messages: list[dict[str, Any]] = []

    def say(self, role: str, text: str) -> None:
        """Adds a spoken message."""
        self.clock += 20
        self.messages.append({"role": role, "content": text, "timestamp": self.clock})

    def call(self, *calls: Call) -> str:
        """Adds a message with calls and their results; returns the last result."""
        self.clock += 5
        made = [
            {
                "id": f"call_{len(self.messages)}_{position}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
            for position, (tool, arguments) in enumerate(calls)
        ]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": made, "timestamp": self.clock})
        result = ""
        for record, (tool, arguments) in zip(made, calls, strict=True):
            self.clock += 2
            result = self.world.call(tool, arguments)
            self.messages.append(
                {"role": "tool", "tool_call_id": record["id"], "content": result, "timestamp": self.clock}
            )
        return result


def play(task: Task, slip: str, start: int) -> Talk:
    """One run of a task, with a slip or without."""
    talk = Talk(task.world(), start)
    talk.say("user", task.request)
    if slip in ("skip", "early"):
        _too_soon(task, slip, talk)
    elif slip == "hasty":
        for read in task.reads:
            talk.call(read)
        talk.call(task.wrong[slip])
        talk.say("assistant", "That is done.")
        talk.say("user", "But I never agreed to that!")
    elif slip == "silent":
        talk.call(task.reads[0])
        talk.say("assistant", "I am afraid I cannot help with that.")
        talk.say("user", "What a pity.")
    else:
        _in_order(task, slip, talk)
    return talk


def _too_soon(task: Task, slip: str, talk: Talk) -> None:
    talk.call(task.reads[0])
    talk.say("assistant", task.offer)
    talk.say("user", "Yes, please do.")
    refused = talk.call(task.wrong["skip"]).startswith("Error")
    if slip == "skip" and refused and task.write is not None:
        for read in task.reads[1:]:
            talk.call(read)
        talk.call(task.write)
    talk.say("assistant", "Is there anything else?")
    talk.say("user", "No, thank you.")


def _in_order(task: Task, slip: str, talk: Talk) -> None:
    talk.call(task.reads[0])
    talk.call(*task.reads[1:3])
    for read in task.reads[3:]:
        talk.call(read)
    if task.write is None and slip != "blind":
        talk.call((task.handover, {"summary": "This cannot be done at the desk."}))
        talk.say("assistant", "A colleague is on the way to you.")
        return
    talk.say("assistant", task.offer)
    talk.say("user", "Yes, go ahead.")
    if slip in ("repeat", "mixed_up", "blind"):
        talk.call(task.wrong[slip])
    if slip == "repeat":
        talk.call(task.wrong[slip])
        talk.call(task.reads[-1])
    if slip in ("", "repeat") and task.write is not None:
        talk.call(task.write)
    talk.say("assistant", "All done. Is there anything else?")
    talk.say("user", "No, that was all. Thanks!")


def library_tasks() -> list[Task]:
    """Renewals and holds."""
    count = 14
    world = lambda: library(count)  # noqa: E731
    data, tasks = world().data, []
    members = list(data["members"].values())
    for n, member in enumerate(members):
        loan, other = (data["loans"][key] for key in member["loans"])
        title = data["titles"][loan["title_id"]]
        name, stranger = f"{member['first_name']} {member['last_name']}", members[(n + 3) % count]
        look_up = ("find_member", {"email": member["email"]})
        show = ("get_member", {"member_id": member["member_id"]})
        if n % 7 in LONG_TASKS:
            copies = [copy_["copy_id"] for copy_ in title["copies"]]
            hold = {"member_id": member["member_id"], "title_id": title["title_id"]}
            elsewhere = data["titles"][other["title_id"]]["copies"][1]["copy_id"]
            tasks.append(
                Task(
                    id=f"hold-{n}",
                    world=world,
                    domain="library",
                    request=f"Hello, this is {name} ({member['email']}). Could you put a copy of {title['title_id']} "
                    "aside for me at the desk?",
                    reads=[look_up, show, ("get_title", {"title_id": title["title_id"]})],
                    write=("hold_copy", {**hold, "copy_id": copies[1]}),
                    offer=f"I can hold copy {copies[1]} for you. Shall I?",
                    handover="escalate_to_librarian",
                    wrong={
                        "skip": ("hold_copy", {**hold, "copy_id": f"CP-{title['title_id'][2:]}-9"}),
                        "repeat": ("hold_copy", {**hold, "copy_id": copies[0]}),
                        "mixed_up": ("hold_copy", {**hold, "copy_id": elsewhere}),
                        "hasty": ("hold_copy", {**hold, "copy_id": copies[2]}),
                    },
                    slips=LONG_SLIPS[n % 3],
                )
            )
            continue
        renewable = loan["state"] == "out"
        tasks.append(
            Task(
                id=f"renew-{n}",
                world=world,
                domain="library",
                request=f"My name is {name} and my address is {member['email']}. I would like to keep "
                f"{loan['loan_id']} for {2 + n % 3} more weeks.",
                reads=[look_up, show, ("get_loan", {"loan_id": loan["loan_id"]})],
                write=("renew_loan", {"loan_id": loan["loan_id"], "weeks": 2 + n % 3}) if renewable else None,
                offer=f"I can renew {loan['loan_id']} for {2 + n % 3} weeks. Is that right?",
                handover="escalate_to_librarian",
                wrong={
                    "skip": ("renew_loan", {"loan_id": f"LN-{99001 + n}", "weeks": 2 + n % 3}),
                    "repeat": ("renew_loan", {"loan_id": loan["loan_id"][1:], "weeks": 2 + n % 3}),
                    "mixed_up": ("renew_loan", {"loan_id": other["loan_id"], "weeks": 2 + n % 3}),
                    "hasty": ("renew_loan", {"loan_id": stranger["loans"][0], "weeks": 1}),
                    "blind": ("renew_loan", {"loan_id": loan["loan_id"], "weeks": 2 + n % 3}),
                },
                slips=RENEWAL_SLIPS[n % 3] if renewable else ("", "blind", ""),
            )
        )
    return tasks


def garden_tasks() -> list[Task]:
    """Swaps and cancellations."""
    count = 14
    world = lambda: garden(count)  # noqa: E731
    data, tasks = world().data, []
    for n, customer in enumerate(data["customers"].values()):
        order, other = (data["orders"][key] for key in customer["orders"])
        item = order["items"][0]
        sizes = list(data["plants"][item["plant_id"]]["sizes"])
        cards = list(customer["cards"])
        name = f"{customer['first_name']} {customer['last_name']}"
        reads: list[Call] = [
            ("find_customer", {"email": customer["email"]}),
            ("get_customer", {"customer_id": customer["customer_id"]}),
            ("get_order", {"order_id": order["order_id"]}),
        ]
        if n % 7 in LONG_TASKS:
            swap = {"order_id": order["order_id"], "item_id": item["item_id"]}
            good = {**swap, "new_item_id": sizes[2], "card_id": cards[0]}
            tasks.append(
                Task(
                    id=f"swap-{n}",
                    world=world,
                    domain="garden",
                    request=f"Hi, I'm {name}, {customer['email']}. In order {order['order_id']} I'd rather have the "
                    "large plant instead, charged to my first card.",
                    reads=[*reads, ("get_plant", {"plant_id": item["plant_id"]})],
                    write=("swap_item", good),
                    offer="The large one is a little dearer. Shall I swap it and charge your first card?",
                    handover="hand_over_to_person",
                    wrong={
                        "skip": ("swap_item", {**good, "new_item_id": f"{88000 + n}4", "card_id": f"card_{100 + n}"}),
                        "repeat": ("swap_item", {**good, "card_id": f"card_{500 + n}"}),
                        "mixed_up": ("swap_item", {**good, "item_id": other["items"][0]["item_id"]}),
                        "hasty": ("swap_item", {**good, "new_item_id": sizes[1], "card_id": cards[1]}),
                    },
                    slips=LONG_SLIPS[n % 3],
                )
            )
            continue
        open_ = order["state"] == "open"
        cancel = {"order_id": order["order_id"], "reason": ("changed my mind", "ordered twice")[n % 2]}
        tasks.append(
            Task(
                id=f"cancel-{n}",
                world=world,
                domain="garden",
                request=f"Good morning, I am {name} ({customer['email']}). Please cancel order {order['order_id']}, "
                + ("I changed my mind." if n % 2 == 0 else "I ordered it twice by mistake."),
                reads=reads,
                write=("cancel_order", cancel) if open_ else None,
                offer=f"I can cancel {order['order_id']} for you. Shall I go ahead?",
                handover="hand_over_to_person",
                wrong={
                    "skip": ("cancel_order", {**cancel, "order_id": f"#G{1000 + n}"}),
                    "repeat": ("cancel_order", {**cancel, "reason": "not needed"}),
                    "mixed_up": ("cancel_order", {**cancel, "order_id": other["order_id"]}),
                    "hasty": ("cancel_order", {**cancel, "order_id": other["order_id"]}),
                    "blind": ("cancel_order", cancel),
                },
                slips=CANCEL_SLIPS[n % 3] if open_ else ("", "blind", "silent"),
            )
        )
    return tasks


def record(task: Task, slip: str, trial: int, start: int, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A run as one line of the file."""
    talk = play(task, slip, start)
    solved = task.world()
    if task.write is not None:
        solved.call(*task.write)
    return {
        "task_id": task.id,
        "domain": task.domain,
        "trial": trial,
        "agent": "scripted",
        "reward": float(talk.world.data == solved.data and slip != "silent"),
        "gold": [] if task.write is None else [{"name": task.write[0], "arguments": task.write[1]}],
        "tools": tools,
        "messages": talk.messages,
    }


def runs(tasks: list[Task], tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All runs of all tasks."""
    found = []
    for number, task in enumerate(tasks):
        for trial, slip in enumerate(task.slips):
            found.append(record(task, slip, trial, START + 86_400 * number + 3_600 * trial, tools))
    return found


def dirty(clean: list[dict[str, Any]]) -> list[str]:
    """The same kind of run with what real files suffer from, as lines."""
    rows = [copy.deepcopy(row) for row in clean[:8]]
    for row in rows:
        row["task_id"] += "-dirty"
    calls = [[m for m in row["messages"] if m.get("tool_calls")] for row in rows]
    calls[0][0]["tool_calls"][0]["function"]["arguments"] = '{"email": '  # cut inside the arguments
    calls[1][0]["tool_calls"][0]["function"]["arguments"] = '["not", "an object"]'
    for message in rows[2]["messages"]:  # one id for every call of the run
        for call in message.get("tool_calls", []):
            call["id"] = "call_0"
        if "tool_call_id" in message:
            message["tool_call_id"] = "call_0"
    rows[3]["messages"].insert(1, {"role": "tool", "tool_call_id": "nobody", "content": "an answer to nothing"})
    last_result = max(i for i, m in enumerate(rows[4]["messages"]) if m["role"] == "tool")
    del rows[4]["messages"][last_result:]  # the last call was never answered
    del rows[4]["reward"]
    for message in rows[5]["messages"]:
        if message["role"] == "user":
            message["content"] = [{"type": "text", "text": message["content"]}, {"type": "image_url", "image_url": {}}]
    rows[6]["messages"][0]["content"] += " \ud83d"  # half of a surrogate pair
    rows[7]["reward"] = None
    lines = [json.dumps(row) for row in rows]
    return [*lines, "this line is not JSON", json.dumps({"messages": []}), lines[0][: len(lines[0]) // 2]]


def main() -> None:
    """Writes the files."""
    folder = FOLDER / "desks"
    loans, orders = runs(library_tasks(), LIBRARY_TOOLS), runs(garden_tasks(), GARDEN_TOOLS)
    for name, rows in (("library.jsonl", loans), ("garden.jsonl", orders)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (FOLDER / "dirty" / "desks.jsonl").write_text("\n".join(dirty(loans[::2])), encoding="utf-8")


if __name__ == "__main__":
    main()
