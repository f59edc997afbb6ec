"""The executor: any model behind an OpenAI-compatible endpoint, at temperature 0, without streaming."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fresh.expg.endpoint import ChatEndpoint, EndpointSettings, run
from graph_schema.errors import EvaluatorError
from inference.evaluate.executors.protocols import ActionProtocol, JsonAction, Message, NativeTools
from inference.evaluate.executors.reply import Reply
from inference.evaluate.executors.settings import Protocol

_SLOT_SECONDS = 60.0


class ChatModel:
    """A model that continues conversations.

    Args:
        endpoint: Where it is and how patient to be; the key comes from the environment.
    """

    def __init__(self, endpoint: EndpointSettings) -> None:
        self.endpoint = endpoint
        self._chat = ChatEndpoint(endpoint)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.endpoint.model

    def complete(self, **asked: Any) -> Any:
        """One completion.

        Raises:
            EvaluatorError: The endpoint refused, or gave no completion after all tries.
        """
        return run(self._complete(asked))

    async def _complete(self, asked: Mapping[str, Any]) -> Any:
        async with self._chat.client() as client:
            return await self._chat.complete(client, **asked)


class Executor:
    """A model that acts in one of the protocols.

    Args:
        model: The model.
        protocol: How it says what it does.
        policy: What it is told of the domain.
        tools: All tools of the domain, as OpenAI function schemas.
        max_tokens: Most tokens of one answer.
        prefix: Keeps the server's state after the system prompt, so that every run starts from the same; None where
            the server cannot.
    """

    def __init__(
        self,
        model: ChatModel,
        protocol: Protocol,
        policy: str,
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        prefix: SlotFile | None = None,
    ) -> None:
        self._model = model
        self._protocol: ActionProtocol = JsonAction() if protocol is Protocol.JSON else NativeTools()
        self._tools = tools
        self._max_tokens = max_tokens
        self._prefix = prefix
        self.system = self._protocol.system(policy, tools)

    def start(self) -> None:
        """Brings the server into the same state before each run, where it can.

        Raises:
            EvaluatorError: The server refuses.
        """
        if self._prefix is None:
            return
        opening: list[Message] = [{"role": "system", "content": self.system}, {"role": "user", "content": "Hello."}]
        asked = self._protocol.request(opening, "", self._tools)
        if not self._prefix.restore(asked):
            self._prefix.erase()
            self._model.complete(**asked, max_tokens=1)
            self._prefix.save(asked)

    def act(self, history: Sequence[Message], note: str, offered: Sequence[Mapping[str, Any]], call_id: str) -> Reply:
        """The next answer.

        Args:
            history: The conversation; its first message is the system's.
            note: Shown in this request alone.
            offered: Tools that this step may use.
            call_id: Id for a call that comes without one.

        Raises:
            EvaluatorError: The endpoint refused, or gave no completion after all tries.
        """
        asked = self._protocol.request(history, note, offered)
        completion = self._model.complete(**asked, max_tokens=self._max_tokens)
        choice = completion.choices[0]
        reply = self._protocol.read(choice.message, call_id, cut=choice.finish_reason == "length")
        usage = getattr(completion, "usage", None)
        details = getattr(usage, "prompt_tokens_details", None)
        return replace(
            reply,
            prompt_tokens=_count(usage, "prompt_tokens"),
            cached_tokens=_count(details, "cached_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
        )


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value > 0 else 0


class SlotFile:
    """llama-server's saved prompt state: the same state before each run makes temperature 0 repeat itself.

    Needs a server started with ``--slot-save-path`` and one slot; ``--cache-ram 0`` keeps it from other states.

    Args:
        base_url: Base of the chat endpoint, up to and with ``/v1``.
        model: Name of the model, part of the file's name.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self._root = base_url.rstrip("/").removesuffix("/v1")
        self._model = model
        self._saved: set[str] = set()

    def restore(self, asked: Mapping[str, Any]) -> bool:
        """Restores the state after this request; False if this process has not saved it."""
        name = self._name(asked)
        if name not in self._saved:
            return False
        self._post("restore", name)
        return True

    def save(self, asked: Mapping[str, Any]) -> None:
        """Saves the server's state, which must be that after this request."""
        name = self._name(asked)
        self._post("save", name)
        self._saved.add(name)

    def erase(self) -> None:
        """Empties the slot, so that what is saved next does not depend on what was asked before."""
        self._post("erase")

    def _name(self, asked: Mapping[str, Any]) -> str:
        text = json.dumps([self._model, asked], sort_keys=True)
        return f"prefix-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.bin"

    def _post(self, action: str, name: str = "") -> None:
        request = urllib.request.Request(
            f"{self._root}/slots/0?action={action}",
            data=json.dumps({"filename": name} if name else {}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_SLOT_SECONDS) as answer:
                answer.read()
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise EvaluatorError(
                f"{self._root} cannot {action} the state of its slot ({error}): start llama-server with "
                "--slot-save-path, or leave the prefix file out"
            ) from None
