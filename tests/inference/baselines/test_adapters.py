"""Published packages as memories: what goes in, what comes out, and that nothing leaves the machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from fresh.guidance import estimate_tokens
from fresh.retrieval.encoder import HashedEncoder
from fresh.traces import load
from graph_schema.errors import ConfigError, MissingExtraError
from graph_schema.trajectory import Outcome, Trajectory
from inference.baselines.adapters import ADAPTERS, Mem0Package
from inference.baselines.adapters.items import Kind, PackageMemory, Shelf
from inference.baselines.base import Setting
from inference.baselines.recall import Moment

REPOSITORY = Path(__file__).resolve().parents[3]
DESKS = REPOSITORY / "tests" / "data" / "desks" / "library.jsonl"
MODULES = {
    "langgraph-store": "langgraph.store.memory",
    "mem0ai": "mem0",
    "mimir-learn": "mimir",
    "reasoning-bank": "reasoning_bank",
}
PACKAGES = {name: name for name in MODULES} | {"langgraph-store": "langgraph-checkpoint"}
NAMES = sorted(MODULES)
BUDGET = 300
RENEW = [{"role": "user", "content": "I want to keep the book I borrowed for longer, please renew my loan."}]


@pytest.fixture(scope="module")
def runs() -> list[Trajectory]:
    return load([DESKS])[0]


@pytest.fixture(scope="module", params=NAMES)
def memory(request: pytest.FixtureRequest, runs: list[Trajectory]) -> PackageMemory:
    return build(request.param, runs)


def installed(name: str) -> bool:
    """Asked of the metadata: importing mem0 to find out would start its telemetry."""
    return any(True for _ in distributions(name=PACKAGES[name]))


def build(name: str, runs: list[Trajectory]) -> PackageMemory:
    if not installed(name):
        pytest.skip(f"{PACKAGES[name]} is not installed (extra bench)")
    adapter = next(adapter for adapter in ADAPTERS if adapter.name == name)
    return adapter.build(runs, Setting(encoder=HashedEncoder()))


def answered(tool: str, arguments: str, result: str) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def test_every_adapter_has_a_name_of_its_own() -> None:
    assert sorted(adapter.name for adapter in ADAPTERS) == NAMES


def test_each_successful_way_and_each_error_is_one_item(runs: list[Trajectory]) -> None:
    shelf = Shelf(runs, Setting())
    texts = [(item.kind, item.text) for item in shelf.items]
    assert len(set(texts)) == len(texts)
    of_kind = {kind: [item for item in shelf.items if item.kind is kind] for kind in Kind}
    assert all(of_kind.values())
    assert any("renew_loan" in item.text for item in of_kind[Kind.RUN])
    assert any("fails: " in item.text for item in of_kind[Kind.LESSON])
    successes = [run for run in runs if run.feedback.outcome is Outcome.SUCCESS]
    assert len(of_kind[Kind.RUN]) <= len(successes)
    again = Shelf([*reversed(runs), *runs], Setting())
    assert [item.key for item in again.items] == [item.key for item in shelf.items]


def test_no_identifier_of_an_old_run_goes_into_a_package(runs: list[Trajectory]) -> None:
    text = "\n".join(f"{item.title}\n{item.text}" for item in Shelf(runs, Setting()).items)
    for run in runs:
        for _, call in run.calls():
            for name, value in (call.arguments or {}).items():
                assert not (name.endswith("_id") and str(value) in text), (name, value)


def test_failed_runs_are_never_shown(runs: list[Trajectory]) -> None:
    shelf = Shelf(runs, Setting())
    failed = [item.key for item in shelf.items if item.kind is Kind.FAILED]
    moment = Moment.of([{"role": "user", "content": "anything"}], None)
    assert not shelf.advice(moment, failed, [], BUDGET).text


def test_it_recommends_the_way_of_a_similar_request(memory: PackageMemory) -> None:
    assert "renew_loan" in memory.guide(RENEW, None, BUDGET).text


def test_what_is_done_is_not_recommended_again(memory: PackageMemory) -> None:
    chat = [*RENEW, *answered("get_loan", '{"loan_id": "L1"}', '{"loan_id": "L1", "renewals": 0}')]
    lines = memory.guide(chat, None, BUDGET).text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("A run that succeeded"))
    shown = [line for line in lines[first + 1 :] if line.startswith("- ")]
    assert shown and not any(line.startswith("- get_loan") for line in shown)


def test_errors_are_warned_of_in_lines_that_say_avoid(memory: PackageMemory, runs: list[Trajectory]) -> None:
    lines = memory.guide([{"role": "user", "content": "Put a copy aside for me."}], None, BUDGET).text.splitlines()
    warned = [line for line in lines if line.startswith("Avoid: ")]
    assert warned and all(" fails with " in line and "then then" not in line for line in warned)
    failing = {call.tool for run in runs for _, call in run.calls() if call.observation and call.observation.is_error}
    assert all(any(tool in line for tool in failing) for line in warned)


@pytest.mark.parametrize("budget", [0, 5, 40, 120])
def test_the_budget_is_kept(memory: PackageMemory, budget: int) -> None:
    assert estimate_tokens(memory.guide(RENEW, None, budget).text) <= budget


def test_only_offered_tools_are_named(memory: PackageMemory) -> None:
    tools = [{"type": "function", "function": {"name": "get_loan", "parameters": {"type": "object"}}}]
    text = memory.guide(RENEW, tools, BUDGET).text
    assert "get_loan" in text and "renew_loan" not in text


def test_nothing_is_said_before_anybody_has_spoken(memory: PackageMemory) -> None:
    assert not memory.guide([], None, BUDGET).text


def test_the_same_question_gets_the_same_answer(memory: PackageMemory, runs: list[Trajectory]) -> None:
    first = memory.guide(RENEW, None, BUDGET).text
    memory.guide([{"role": "user", "content": "something else"}], None, BUDGET)
    assert memory.guide(RENEW, None, BUDGET).text == first
    assert build(memory.name, runs[::-1]).guide(RENEW, None, BUDGET).text == first


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_built_from_nothing(name: str) -> None:
    assert not build(name, []).guide(RENEW, None, BUDGET).text


def test_it_says_how_big_it_is_and_cleans_up(memory: PackageMemory, runs: list[Trajectory]) -> None:
    other = build(memory.name, runs)
    folder = other._folder
    assert other.size() > 0 and folder.is_dir()
    del other
    gc.collect()
    assert not folder.exists()


GUARD = """
import atexit, socket, sys
tried = []
def refuse(*args, **kwargs):
    tried.append(repr(args[-2:]))
    raise OSError("the network is out of bounds")
for place, name in [(socket.socket, "connect"), (socket.socket, "connect_ex"), (socket.socket, "sendto"),
                    (socket, "getaddrinfo"), (socket, "gethostbyname"), (socket, "create_connection")]:
    setattr(place, name, refuse)
atexit.register(lambda: print("TRIED", len(tried), tried[:3]))  # first in, last out: after every client's last flush
"""
USE = """
from pathlib import Path
from fresh.retrieval.encoder import HashedEncoder
from fresh.traces import load
from inference.baselines.adapters import ADAPTERS
from inference.baselines.base import Setting
runs, _ = load([sys.argv[1]])
for adapter in ADAPTERS:
    if adapter.name in sys.argv[2:]:
        memory = adapter.build(runs, Setting(encoder=HashedEncoder()))
        for _ in range(3):
            assert memory.guide([{"role": "user", "content": "renew my loan"}], None, 300).text
print("USED")
"""
TELL = """
from mem0.memory.telemetry import client_telemetry
client_telemetry.capture_event("a test", user_email="nobody@example.invalid")
print("USED")
"""


def run_guarded(code: str, *arguments: str, home: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEM0", "LANG"))}
    done = subprocess.run(
        [sys.executable, "-c", GUARD + code, *arguments],
        cwd=REPOSITORY,
        env=kept | {"HOME": str(home), "PYTHONPATH": str(REPOSITORY)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "USED" in done.stdout, done.stderr
    return done.stdout.rsplit("TRIED ", 1)[1]


def test_nothing_leaves_the_process_and_nothing_is_left_at_home(tmp_path: Path) -> None:
    here = [name for name in NAMES if installed(name)]
    if not here:
        pytest.skip("none of the packages is installed (extra bench)")
    assert run_guarded(USE, str(DESKS), *here, home=tmp_path).startswith("0 ")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_guard_sees_telemetry_where_it_is_on(tmp_path: Path) -> None:
    if not installed("mem0ai"):
        pytest.skip("mem0ai is not installed (extra bench)")
    assert not run_guarded(TELL, home=tmp_path, MEM0_TELEMETRY="True").startswith("0 ")


def test_mem0_with_its_telemetry_on_is_refused(monkeypatch: pytest.MonkeyPatch, runs: list[Trajectory]) -> None:
    build("mem0ai", runs)
    monkeypatch.setattr(sys.modules["mem0.memory.telemetry"], "MEM0_TELEMETRY", True)
    with pytest.raises(ConfigError, match="MEM0_TELEMETRY=False"):
        Mem0Package.build(runs, Setting(encoder=HashedEncoder()))


@pytest.mark.parametrize("name", NAMES)
def test_a_package_that_is_missing_is_named(name: str, runs: list[Trajectory], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [m for m in sys.modules if m.split(".")[0] == MODULES[name].split(".")[0]]:
        monkeypatch.delitem(sys.modules, module)
    for module in {MODULES[name], MODULES[name].split(".")[0]}:
        monkeypatch.setitem(sys.modules, module, None)
    adapter = next(adapter for adapter in ADAPTERS if adapter.name == name)
    with pytest.raises(MissingExtraError, match=r"is not installed: pip install 'fresh-memory\[bench\]'"):
        adapter.build(runs, Setting(encoder=HashedEncoder()))
