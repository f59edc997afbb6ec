"""The real retail environment, one of its train tasks, and a scripted model to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import ORDER, ChatServer, chat_model

from inference.evaluate.executors import ChatModel, Executor, LoopSettings, Protocol, ScriptedUser
from inference.evaluate.executors.episode import Episode, Runner
from inference.evaluate.tau2.environment import Domain, load_domain

if TYPE_CHECKING:
    from tau2.data_model.tasks import Task


@pytest.fixture
def server() -> Iterator[ChatServer]:
    pytest.importorskip("openai")
    with ChatServer() as running:
        yield running


@pytest.fixture(scope="session")
def retail() -> Domain:
    pytest.importorskip("tau2", reason="the tau2 extra is not installed")
    return load_domain("retail")


@pytest.fixture(scope="session")
def task(retail: Domain) -> Task:
    found = next(task for task in retail.tasks("train") if task.id == "88")
    assert [(a.name, a.arguments) for a in found.evaluation_criteria.actions] == [("cancel_pending_order", ORDER)]
    return found


@pytest.fixture
def model(server: ChatServer) -> ChatModel:
    return chat_model(server)


@pytest.fixture
def run(retail: Domain, task: Task, model: ChatModel) -> Callable[..., Episode]:
    """Runs the task once; settings by name, helpers as ``adviser`` and ``gate``."""

    def run_task(protocol: Protocol = Protocol.JSON, adviser: Any = None, gate: Any = None, **settings: Any) -> Episode:
        chosen = LoopSettings(protocol=protocol, **settings)
        executor = Executor(model, protocol, retail.policy, retail.tools, max_tokens=chosen.max_tokens)
        user = ScriptedUser(task, ["cancel_pending_order", "return_delivered_order_items"], chosen.max_user_turns)
        return Runner(retail, task, executor, user, chosen, adviser, gate).run()

    return run_task
