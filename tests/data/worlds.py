"""Two small invented desks, simulated in memory: loans of a library, orders of a garden shop.

Everything in them (people, addresses, titles, plants, numbers) is made up for the tests of this project. A tool either
answers with JSON, or with a text that begins with ``Error:`` and leaves the data as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Data = dict[str, dict[str, Any]]


class ToolError(Exception):
    """What a tool answers when it refuses."""


class World:
    """A desk's data and the tools that work on it."""

    def __init__(self, data: dict[str, Data]) -> None:
        self.data = data

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """The tool's answer as text."""
        function: Callable[..., Any] | None = getattr(self, f"do_{tool}", None)
        if function is None:
            return f"Error: unknown tool {tool}"
        try:
            answer = function(**arguments)
        except ToolError as refusal:
            return f"Error: {refusal}"
        except TypeError:
            return f"Error: wrong arguments for {tool}"
        return answer if isinstance(answer, str) else json.dumps(answer)

    def _get(self, table: str, key: str) -> dict[str, Any]:
        if key not in self.data[table]:
            raise ToolError(f"{table[:-1]} {key} not found")
        return self.data[table][key]

    def _by_email(self, table: str, email: str) -> str:
        for key, row in self.data[table].items():
            if row["email"] == email:
                return key
        raise ToolError(f"{table[:-1]} not found")


class Library(World):
    """Members, their loans and holds, and the copies of each title."""

    def do_find_member(self, email: str) -> str:
        return self._by_email("members", email)

    def do_get_member(self, member_id: str) -> dict[str, Any]:
        return self._get("members", member_id)

    def do_get_loan(self, loan_id: str) -> dict[str, Any]:
        return self._get("loans", loan_id)

    def do_get_title(self, title_id: str) -> dict[str, Any]:
        return self._get("titles", title_id)

    def do_renew_loan(self, loan_id: str, weeks: int) -> dict[str, Any]:
        loan = self._get("loans", loan_id)
        if loan["state"] == "overdue":
            raise ToolError(
                f"loan {loan_id} is overdue since {loan['due_on']}, the fine of ${loan['fine']} comes first"
            )
        loan["renewed_weeks"] = weeks  # a returned or recalled loan is renewed without a word
        return loan

    def do_hold_copy(self, member_id: str, title_id: str, copy_id: str) -> dict[str, Any]:
        self._get("members", member_id)
        copies = {copy["copy_id"]: copy for copy in self._get("titles", title_id)["copies"]}
        if copy_id not in copies:
            raise ToolError(f"copy {copy_id} is not a copy of {title_id}")
        if not copies[copy_id]["on_shelf"]:
            raise ToolError("this copy is out on loan")
        copies[copy_id]["held_for"] = member_id
        return {"title_id": title_id, "copy_id": copy_id, "held_for": member_id}

    def do_escalate_to_librarian(self, summary: str) -> str:
        return "A librarian will take over."


class GardenShop(World):
    """Customers, their cards and orders, and the sizes of each plant."""

    def do_find_customer(self, email: str) -> str:
        return self._by_email("customers", email)

    def do_get_customer(self, customer_id: str) -> dict[str, Any]:
        return self._get("customers", customer_id)

    def do_get_order(self, order_id: str) -> dict[str, Any]:
        return self._get("orders", order_id)

    def do_get_plant(self, plant_id: str) -> dict[str, Any]:
        return self._get("plants", plant_id)

    def do_cancel_order(self, order_id: str, reason: str) -> dict[str, Any]:
        order = self._get("orders", order_id)
        if reason not in ("changed my mind", "ordered twice"):
            raise ToolError("invalid reason")
        order["state"], order["reason"] = "cancelled", reason  # even an order that is on its way
        return order

    def do_swap_item(self, order_id: str, item_id: str, new_item_id: str, card_id: str) -> dict[str, Any]:
        order = self._get("orders", order_id)
        if order["state"] != "open":
            raise ToolError(f"items of a {order['state']} order cannot be swapped")
        if card_id not in self._get("customers", order["customer_id"])["cards"]:
            raise ToolError(f"card {card_id} not found")
        item = next((item for item in order["items"] if item["item_id"] == item_id), None)
        if item is None:
            raise ToolError(f"item {item_id} is not in the order")
        sizes = self._get("plants", item["plant_id"])["sizes"]
        if new_item_id not in sizes:
            raise ToolError(f"item {new_item_id} is another plant")
        item["item_id"], order["charged_to"] = new_item_id, card_id
        return order

    def do_hand_over_to_person(self, summary: str) -> str:
        return "A colleague will take over."


def _tool(name: str, description: str, read_only: bool | None = None, **parameters: str) -> dict[str, Any]:
    """An OpenAI function schema; ``read_only`` becomes an annotation where it is said at all."""
    tool: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in parameters.items()},
                "required": list(parameters),
            },
        },
    }
    if read_only is not None:
        tool["annotations"] = {"readOnlyHint": read_only}
    return tool


LIBRARY_TOOLS = [
    _tool("find_member", "Finds a member by e-mail address.", True, email="string"),
    _tool("get_member", "Shows a member with loans.", True, member_id="string"),
    _tool("get_loan", "Shows a loan.", loan_id="string"),
    _tool("get_title", "Shows a title and its copies.", title_id="string"),
    _tool("renew_loan", "Renews a loan.", False, loan_id="string", weeks="integer"),
    _tool("hold_copy", "Holds a copy for a member.", member_id="string", title_id="string", copy_id="string"),
    _tool("escalate_to_librarian", "Hands the conversation to a librarian.", summary="string"),
]
GARDEN_TOOLS = [
    _tool("find_customer", "Finds a customer by e-mail address.", True, email="string"),
    _tool("get_customer", "Shows a customer with cards and orders.", True, customer_id="string"),
    _tool("get_order", "Shows an order.", order_id="string"),
    _tool("get_plant", "Shows a plant and its sizes.", plant_id="string"),
    _tool("cancel_order", "Cancels an order.", False, order_id="string", reason="string"),
    _tool(
        "swap_item",
        "Swaps an item of an order for another size.",
        order_id="string",
        item_id="string",
        new_item_id="string",
        card_id="string",
    ),
    _tool("hand_over_to_person", "Hands the conversation to a person in the shop.", summary="string"),
]


def library(tasks: int) -> Library:
    """A library with one member, two loans and two titles for each task."""
    data: dict[str, Data] = {"members": {}, "loans": {}, "titles": {}}
    for n in range(tasks):
        first, last = LIBRARY_PEOPLE[n]
        member = f"MB-{4100 + 37 * n}"
        loans = [f"LN-{50210 + 113 * n}", f"LN-{50261 + 113 * n}"]
        titles = [f"TT{300 + 11 * n}", f"TT{305 + 11 * n}"]
        data["members"][member] = {
            "member_id": member,
            "first_name": first,
            "last_name": last,
            "email": f"{first.lower()}.{last.lower()}@letters.example",
            "branch": ("harbour", "hill")[n % 2],
            "loans": loans,
        }
        for loan, title, state in zip(loans, titles, LOAN_STATES[n], strict=True):
            due = f"2031-0{1 + n % 6}-{10 + n}"
            data["loans"][loan] = {
                "loan_id": loan,
                "member_id": member,
                "title_id": title,
                "state": state,
                "due_on": due,
            }
            data["loans"][loan]["fine"] = 2.5 + n if state == "overdue" else 0
        for place, title in enumerate(titles):
            data["titles"][title] = {
                "title_id": title,
                "name": f"{TITLES[(2 * n + place) % len(TITLES)]}",
                "copies": [
                    {"copy_id": f"CP-{title[2:]}-{c}", "branch": ("harbour", "hill")[c % 2], "on_shelf": c > 0}
                    for c in range(3)
                ],
            }
    return Library(data)


def garden(tasks: int) -> GardenShop:
    """A shop with one customer, two orders and one plant for each task."""
    data: dict[str, Data] = {"customers": {}, "orders": {}, "plants": {}}
    for n in range(tasks):
        first, last = GARDEN_PEOPLE[n]
        customer = f"{first.lower()}_{last.lower()}_{2210 + 41 * n}"
        orders = [f"#G{8120 + 17 * n}", f"#G{8126 + 17 * n}"]
        plant = f"{604100 + 73 * n}"
        items = [f"{77010 + 19 * n}{size}" for size in range(3)]
        data["customers"][customer] = {
            "customer_id": customer,
            "first_name": first,
            "last_name": last,
            "email": f"{first.lower()}.{last.lower()}@garden.example",
            "cards": {f"card_{9000 + 53 * n + c}": {"last_four": f"{1200 + 7 * n + c}"} for c in range(2)},
            "orders": orders,
        }
        for place, (order, state) in enumerate(zip(orders, ORDER_STATES[n], strict=True)):
            data["orders"][order] = {
                "order_id": order,
                "customer_id": customer,
                "state": state,
                "items": [{"item_id": items[place], "plant_id": plant, "price": 12.5 + n}],
            }
        data["plants"][plant] = {
            "plant_id": plant,
            "name": PLANTS[n % len(PLANTS)],
            "sizes": {
                item: {"item_id": item, "size": size, "price": 12.5 + n + 4 * s}
                for s, (item, size) in enumerate(zip(items, ("small", "medium", "large"), strict=True))
            },
        }
    return GardenShop(data)


LIBRARY_PEOPLE = [
    ("Odile", "Farrow"), ("Bram", "Quint"), ("Sunniva", "Holt"), ("Tiago", "Merle"), ("Wanda", "Pryce"),
    ("Ilmari", "Stone"), ("Noor", "Vance"), ("Petra", "Lund"), ("Ansel", "Croft"), ("Maeve", "Tarn"),
    ("Zoltan", "Birch"), ("Edda", "Wick"), ("Caspar", "Nye"), ("Thora", "Dell"),
]  # fmt: skip
GARDEN_PEOPLE = [
    ("Rufus", "Alder"), ("Ingrid", "Sorrel"), ("Dario", "Fennel"), ("Lotte", "Bracken"), ("Kwame", "Rowan"),
    ("Yuki", "Hazel"), ("Selma", "Thorne"), ("Ivo", "Linden"), ("Greta", "Moss"), ("Pascal", "Ivy"),
    ("Amara", "Yarrow"), ("Otis", "Clover"), ("Brigid", "Larch"), ("Henk", "Nettle"),
]  # fmt: skip
LOAN_STATES = [
    ("out", "returned"), ("out", "recalled"), ("out", "out"), ("overdue", "out"), ("out", "lost"),
    ("out", "overdue"), ("out", "out"), ("out", "returned"), ("out", "recalled"), ("out", "out"),
    ("recalled", "out"), ("out", "lost"), ("out", "out"), ("out", "out"),
]  # fmt: skip
ORDER_STATES = [
    ("open", "sent"), ("open", "delivered"), ("open", "sent"), ("sent", "open"), ("open", "packed"),
    ("open", "sent"), ("open", "delivered"), ("open", "packed"), ("open", "sent"), ("open", "sent"),
    ("packed", "open"), ("open", "delivered"), ("open", "sent"), ("open", "sent"),
]  # fmt: skip
TITLES = ["The Salt Road", "Small Weather", "A Field of Bells", "Night Ferry", "The Glass Orchard", "Low Tide Songs"]
PLANTS = ["lavender", "dwarf quince", "marsh fern", "climbing rose", "sage"]
