"""The reader on texts of every kind: FRESH's own, prose, lists, logs, JSON, and odd ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.conditions import Confirmed
from fresh.guidance import Guidance, Line, Section
from fresh.guidance.write import check_line, errors_line
from fresh.knowledge import KnownError
from inference.compare.reading import Reader, RecommendedCall, Warned, content_words

TOOLS = {
    "get_order": ("order_id",),
    "get_order_details": ("order_id",),
    "cancel_order": ("order_id", "reason"),
    "swap_item": ("order_id", "item_id"),
    "calculate": ("expression",),
    "bookFlight": ("flights", "payment"),
}
READER = Reader(TOOLS)


def tools(text: str) -> tuple[str, ...]:
    return READER.read(text).tools


def warned(text: str) -> set[str]:
    return {warning.tool for warning in READER.read(text).warnings}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Do: call cancel_order with order_id=#W1 (from the request), reason from the user (ask)", ("cancel_order",)),
        ("Use get_order, then swap_item.", ("get_order", "swap_item")),
        ("swap_item comes after get_order", ("swap_item", "get_order")),
        (
            "- **get_order**\n* `swap_item`\n3. cancel_order(order_id=<ORDER_ID>)",
            ("get_order", "swap_item", "cancel_order"),
        ),
        ("get_order_details", ("get_order_details",)),
        ("my_get_order get_orders get_order2", ()),
        ("get-order get order GET_ORDER", ()),
        ("", ()),
        ("\n \n```\n```", ()),
    ],
)
def test_a_tool_that_is_named_is_recommended(text: str, expected: tuple[str, ...]) -> None:
    assert tools(text) == expected and not warned(text)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "Do: call cancel_order with order_id=#W1 (from the request), reason from the user (ask)",
            {"order_id", "reason"},
        ),
        ("cancel_order(order_id=<ORDER_ID>) and mind the reason", {"order_id"}),
        ('Call cancel_order {"order_id": "#W1"}', {"order_id"}),
        ("Do: call cancel_order with order_id from field orders[].id of get_order's result", {"order_id"}),
        ("call cancel_order, then change reason", set()),
        ("cancel_order with my_order_id", set()),
    ],
)
def test_a_call_holds_the_arguments_named_for_it(text: str, arguments: set[str]) -> None:
    assert READER.read(text).calls == (RecommendedCall("cancel_order", frozenset(arguments)),)


@pytest.mark.parametrize(
    ("text", "recommended", "warnings"),
    [
        ("Avoid cancel_order", (), {"cancel_order"}),
        ("- **Never** call cancel_order or swap_item twice", (), {"cancel_order", "swap_item"}),
        ("Tip: Don't use cancel_order", (), {"cancel_order"}),
        ("You must not call cancel_order", (), {"cancel_order"}),
        ("Repair: do not call cancel_order again unchanged", (), {"cancel_order"}),
        (
            "Never call cancel_order before get_order. Then call swap_item.",
            ("get_order", "swap_item"),
            {"cancel_order"},
        ),
        ("Do not call cancel_order without calling get_order", ("get_order",), {"cancel_order"}),
        ("Avoid cancel_order, use swap_item instead", ("swap_item",), {"cancel_order"}),
        ("Avoid cancel_order; use swap_item", ("swap_item",), {"cancel_order"}),
        ("Do not use swap_item instead of cancel_order", ("cancel_order",), {"swap_item"}),
        ("Never skip get_order before cancel_order", ("get_order",), {"cancel_order"}),
        ("Once it is shipped, do not call cancel_order", (), {"cancel_order"}),
        ("Call get_order but never cancel_order", ("get_order",), {"cancel_order"}),
        ("Use get_order instead of get_order_details, no need to call swap_item", ("get_order",), set()),
        ("cancel_order is not needed", (), set()),
        ("Go on without cancel_order", (), set()),
    ],
)
def test_negations(text: str, recommended: tuple[str, ...], warnings: set[str]) -> None:
    assert tools(text) == recommended and warned(text) == warnings


@pytest.mark.parametrize(
    ("text", "recommended", "warnings"),
    [
        ('cancel_order failed with "order is not pending"', (), {"cancel_order"}),
        ("Call get_order. cancel_order can fail here.", ("get_order",), {"cancel_order"}),
        ("cancel_order and swap_item fail when nothing was looked up", (), {"cancel_order", "swap_item"}),
        ("Failed: cancel_order, since get_order came too late", (), {"cancel_order"}),
        ("3. cancel_order(order_id=<ORDER_ID>) -> Error: order is not pending", (), {"cancel_order"}),
        ("cancel_order returned an error", (), {"cancel_order"}),
        ("If cancel_order fails, call get_order", (), {"cancel_order"}),
        ("cancel_order never fails", (), set()),
        ("A run that failed: get_order, cancel_order", ("get_order", "cancel_order"), set()),
        ("Failed runs called get_order", ("get_order",), set()),
        ("call get_order; cancel_order can fail", ("get_order",), {"cancel_order"}),
    ],
)
def test_what_is_said_of_failures(text: str, recommended: tuple[str, ...], warnings: set[str]) -> None:
    assert tools(text) == recommended and warned(text) == warnings


def test_a_warning_holds_the_message_and_no_tool_names() -> None:
    (found,) = READER.read(
        'Avoid: cancel_order can fail with "order <ORDER_ID> is not pending"; then call get_order'
    ).warnings
    assert found == Warned("cancel_order", content_words("order pending"), names_failure=True)
    (found,) = READER.read("cancel_order -> Error: order 17 is not pending").warnings
    assert found == Warned("cancel_order", content_words("order pending"), names_failure=True)
    (found,) = READER.read("Never call cancel_order").warnings
    assert found == Warned("cancel_order")


@pytest.mark.parametrize(
    ("text", "recommended"),
    [
        ("Check: before cancel_order: call get_order for this order_id; not done yet", ("get_order",)),
        ("call get_order before cancel_order", ("get_order",)),
        ("Before you call cancel_order, look at get_order", ("get_order",)),
        ("before cancel_order: the status must be pending", ()),
    ],
)
def test_what_comes_before_a_tool_is_a_warning_of_it(text: str, recommended: tuple[str, ...]) -> None:
    assert tools(text) == recommended and warned(text) == {"cancel_order"}


def test_several_tools_can_be_guarded_together() -> None:
    text = "call get_order before cancel_order or swap_item"
    assert tools(text) == ("get_order",) and warned(text) == {"cancel_order", "swap_item"}


def test_what_is_done_is_ignored() -> None:
    assert READER.read("Done: get_order x2, cancel_order. call swap_item") == READER.read("")
    assert READER.read("- Already done: get_order") == READER.read("")
    assert tools("Done: get_order\nDo: call swap_item") == ("swap_item",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("calculate the total price", False),
        ("to calculate it, ask", False),
        ("`calculate`", True),
        ("calculate", True),
        ("call calculate with expression", True),
        ("calculate(expression=<EXPRESSION>)", True),
        ("get_order -> calculate", True),
        ("calculate can fail", True),
    ],
)
def test_a_name_that_is_an_ordinary_word_counts_where_it_is_marked(text: str, named: bool) -> None:
    reading = READER.read(text)
    assert ("calculate" in {*reading.tools, *(w.tool for w in reading.warnings)}) is named


def test_quoted_text_is_data_unless_it_is_a_name() -> None:
    assert tools('The user said "call cancel_order now" but “swap_item is better” too; get_order') == ("get_order",)
    assert tools('call "get_order"') == ("get_order",)


def test_json_of_every_shape() -> None:
    block = '```json\n{"name": "cancel_order",\n  "arguments": {"order_id": "1", "x": 2}}\n```\nget_order'
    assert READER.read(block).calls == (
        RecommendedCall("cancel_order", frozenset({"order_id"})),
        RecommendedCall("get_order"),
    )
    calls = (
        '[{"function": {"name": "get_order", "arguments": "{\\"order_id\\": 1}"}},'
        ' {"tool": "cancel_order", "args": {}, "error": "order is not pending"}]'
    )
    reading = READER.read(calls)
    assert reading.calls == (RecommendedCall("get_order", frozenset({"order_id"})),)
    assert reading.warnings == (Warned("cancel_order", content_words("order pending"), True),)
    advice = '{"title": "x", "content": "Never call cancel_order without get_order", "next": ["swap_item"]}'
    assert tools(advice) == ("get_order", "swap_item") and warned(advice) == {"cancel_order"}
    assert warned('{"name": "swap_item", "success": false, "result": "no such item"}') == {"swap_item"}
    assert tools('{"name": "get_order", "arguments": {"order_id": ') == ("get_order",)  # broken, so read as text
    assert tools("{not json} get_order") == ("get_order",)


def test_fresh_says_what_it_means() -> None:
    """The words that FRESH writes, made by its own templates."""
    error = KnownError(node=0, message="non-pending order cannot be cancelled", times=3, runs=3, repairs=())
    lines = [
        Line(section=Section.DONE, text="get_order_details", confidence=1),
        Line(section=Section.DO, text="call get_order with order_id=1 (from the request)", confidence=1),
        Line(section=Section.AVOID, text=errors_line("cancel_order", [error.message]), confidence=1),
        Line(section=Section.CHECK, text=check_line("swap_item", Confirmed()), confidence=1),
    ]
    reading = READER.read(Guidance(lines=tuple(lines)).text)
    assert reading.calls == (RecommendedCall("get_order", frozenset({"order_id"})),)
    assert {(w.tool, w.names_failure) for w in reading.warnings} == {("cancel_order", True), ("swap_item", False)}
    assert reading.warnings[0].words == content_words("non pending order cancelled")


def test_no_tools_and_strange_names() -> None:
    assert Reader({}).read("call get_order").tools == ()
    assert Reader({"": (), "a.b(c": ("x",)}).read("use a.b(c with x").calls == (
        RecommendedCall("a.b(c", frozenset("x")),
    )


def test_endings_and_stop_words_do_not_part_words() -> None:
    assert content_words("Payments exceeded") == content_words("the payment exceeds")
    assert content_words("<ORDER_ID> 17 of the") == frozenset()


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    reading = READER.read(text)
    assert set(reading.tools) <= set(TOOLS)


@given(
    st.lists(
        st.sampled_from(
            ["get_order", "avoid", ";", "before", ":", "{", "}", '"', "fails", "with", "\n", "(", "not", "call"]
        )
    )
)
def test_any_order_of_the_words_that_matter_is_read(words: list[str]) -> None:
    reading = READER.read(" ".join(words))
    assert set(reading.tools) <= {"get_order"} and {warned.tool for warned in reading.warnings} <= {"get_order"}
