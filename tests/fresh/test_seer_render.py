from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from seer_builders import made, run

from fresh.guidance import estimate_tokens
from fresh.retrieval.encoder import HashedEncoder
from fresh.seer import Exemplar, ExperiencePool, Situation, exemplar_text
from graph_schema.trajectory import Trajectory

NOW = Situation(request="cancel", text="cancel")


def recalled(*runs: Trajectory) -> list[Exemplar]:
    pool = ExperiencePool(HashedEncoder())
    pool.add(runs)
    return pool.recall(NOW)


def shopper(name: str, tools: int = 4) -> Trajectory:
    calls = [made(f"step_{i}", {"order_id": "#W2378156", "address1": "12 Elm St"}) for i in range(tools)]
    return run(name, "Please cancel order #W2378156 for ana@example.com", calls)


def test_an_example_is_the_request_and_the_steps() -> None:
    steps = ["find", made("read", {"order_id": "#W2378156"}), made("read", {"order_id": "#W99"}), "cancel"]
    text = exemplar_text(recalled(run("a", "Please cancel order #W2378156", steps)), 300)
    assert text.splitlines()[1:] == [
        "Example 1: Please cancel order <ORDER_ID>",
        "1. find()",
        "2. read(order_id=<ORDER_ID>)",
        "3. cancel()",
    ]


def test_names_of_tools_and_arguments_stay_and_particulars_go() -> None:
    text = exemplar_text(recalled(shopper("a")), 300)
    assert "step_3(address1=<ADDRESS1>, order_id=<ORDER_ID>)" in text
    for particular in ("2378156", "ana@", "Elm"):
        assert particular not in text


def test_an_identifier_in_the_place_of_an_argument_name_goes() -> None:
    text = exemplar_text(recalled(run("a", "Do it", [made("set", {"order_W2378156": 1})])), 300)
    assert "W2378156" not in text


def test_nothing_to_show() -> None:
    assert exemplar_text([], 300) == ""
    assert exemplar_text(recalled(shopper("a")), 0) == ""
    assert exemplar_text(recalled(shopper("a")), 50) == ""


def test_the_last_example_is_cut_to_fit() -> None:
    runs = recalled(shopper("a"), shopper("b"), shopper("c"))
    whole = exemplar_text(runs[:1], 10_000)
    text = exemplar_text(runs, estimate_tokens(whole) + 60)
    assert text.startswith(whole)
    assert text.endswith("\n...")
    assert "Example 2" in text
    assert "Example 3" not in text


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 400), st.lists(st.tuples(st.text(max_size=40), st.integers(0, 6)), max_size=4))
def test_the_budget_holds(budget: int, given_runs: list[tuple[str, int]]) -> None:
    runs = [
        run(str(i), request, [made(f"toöl_{k}", {"größe": k}) for k in range(steps)])
        for i, (request, steps) in enumerate(given_runs)
    ]
    text = exemplar_text(recalled(*runs), budget)
    assert estimate_tokens(text) <= budget
    assert text == "" or "Example 1" in text
