"""Validated JSON from any OpenAI-compatible chat endpoint: retries with back-off, deadlines, limits, running cost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graph_schema.errors import EvaluatorError, MissingExtraError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

Reply = TypeVar("Reply", bound=BaseModel)
Result = TypeVar("Result")

_RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Client errors that a later try may cure; every 5xx is one too."""


class EndpointSettings(BaseModel):
    """Where and how to ask.

    Attributes:
        model: Name of the model.
        base_url: Base of the endpoint, up to and with ``/v1``; None for the client's default.
        api_key: None for the ``OPENAI_API_KEY`` of the environment, or a dummy where a local server wants none.
        concurrency: Requests under way at once.
        attempts: Tries of one question before giving up.
        deadline: Seconds a request may take in all, however slowly it drips.
        wait: Seconds before the second try; doubled each time, with some jitter.
        longest_wait: Most seconds between tries, also where the server asks for more.
        structured: Ask for the JSON Schema of the answer; turned off by itself where the server refuses it.
        max_requests: Most requests of this object's life; None for no limit.
        max_tokens: Most tokens, in and out; None for no limit.
        max_cost: Most cost, in the currency of the prices; None for no limit.
        price_in: Cost of a million tokens read.
        price_out: Cost of a million tokens written.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    concurrency: int = Field(default=4, ge=1)
    attempts: int = Field(default=5, ge=1)
    deadline: float = Field(default=120.0, gt=0)
    wait: float = Field(default=1.0, ge=0)
    longest_wait: float = Field(default=60.0, ge=0)
    structured: bool = True
    max_requests: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0)
    max_cost: float | None = Field(default=None, ge=0)
    price_in: float = Field(default=0.0, ge=0)
    price_out: float = Field(default=0.0, ge=0)


class Usage(BaseModel):
    """What was asked and paid so far."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


class BudgetSpent(EvaluatorError):
    """A limit of the settings is reached; nothing more is asked."""


class _BadReply(Exception):
    """The model's text is not what was asked for."""


class ChatEndpoint:
    """Asks one question at a time and returns a validated object.

    An answer that is no JSON, or breaks the asked-for shape, is a reason to try again, as are 408, 409, 429 and 5xx,
    a deadline passed and a connection cut. Other refusals (a wrong key, an unknown model) fail at once. Limits are
    looked at before each request, so what is under way then may still exceed them a little.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.usage = Usage()
        self._structured = settings.structured

    def __repr__(self) -> str:
        return f"ChatEndpoint(model={self.settings.model!r}, base_url={self.settings.base_url!r})"

    def client(self) -> AsyncOpenAI:
        """A new client; it belongs to the running event loop.

        Raises:
            MissingExtraError: The openai package is not installed.
            EvaluatorError: No API key is set and the default endpoint needs one.
        """
        try:
            import openai
            import tenacity  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(error.name or "openai", "llm") from None
        key = self.settings.api_key or os.environ.get("OPENAI_API_KEY")
        if key is None and self.settings.base_url is not None:
            key = "none"  # local servers want no key, the client insists on one
        try:
            return openai.AsyncOpenAI(
                api_key=key,
                base_url=self.settings.base_url,
                max_retries=0,
                timeout=self.settings.deadline,
            )
        except openai.OpenAIError as error:
            raise EvaluatorError(f"no client for {self.settings.model}: {error}") from None

    async def ask(self, client: AsyncOpenAI, prompt: str, shape: type[Reply]) -> Reply:
        """Asks until a valid answer comes, the tries are used up or a limit is reached.

        Args:
            client: From :meth:`client`.
            prompt: The question.
            shape: What the answer must be.

        Raises:
            EvaluatorError: No valid answer came; the message has the last reason.
            BudgetSpent: A limit of the settings is reached.
        """
        complaint = ""

        async def once() -> Reply:
            nonlocal complaint
            try:
                return await self._once(client, prompt + complaint, shape)
            except _BadReply as error:
                complaint = f"\n\nYour last answer could not be used ({error}). Answer as asked."
                raise

        return await self._until_usable(once)

    async def complete(self, client: AsyncOpenAI, **asked: Any) -> ChatCompletion:
        """One completion as the server gave it, with the same retries; what stands in it is for the caller to judge.

        Args:
            client: From :meth:`client`.
            asked: Parameters of the request besides the model, such as ``messages`` and ``tools``.

        Raises:
            EvaluatorError: No completion came; the message has the last reason.
            BudgetSpent: A limit of the settings is reached.
        """

        async def once() -> ChatCompletion:
            completion = await self._send(client, {"temperature": 0, **asked})
            _message_of(completion)
            return completion

        return await self._until_usable(once)

    async def _until_usable(self, once: Callable[[], Awaitable[Result]]) -> Result:
        import openai
        from tenacity import AsyncRetrying, RetryError, retry_if_exception, stop_after_attempt

        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception(_worth_retrying),
                stop=stop_after_attempt(self.settings.attempts),
                wait=self._wait,
            ):
                with attempt:
                    return await once()
        except RetryError as error:
            said = _say(error.last_attempt.exception())
            tries = self.settings.attempts
            raise EvaluatorError(f"{self._name()} gave no usable answer in {tries} tries: {said}") from None
        except openai.OpenAIError as error:
            raise EvaluatorError(f"{self._name()} refused: {_say(error)}") from None
        raise EvaluatorError(f"{self._name()} was not asked")  # no attempt allowed

    def _name(self) -> str:
        return f"{self.settings.model} at {self.settings.base_url or 'the default endpoint'}"

    async def _once(self, client: AsyncOpenAI, prompt: str, shape: type[Reply]) -> Reply:
        import openai

        asked: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], "temperature": 0}
        structured = self._structured
        if structured:
            schema = {"name": shape.__name__, "schema": shape.model_json_schema()}
            asked["response_format"] = {"type": "json_schema", "json_schema": schema}
        try:
            completion = await self._send(client, asked)
        except openai.BadRequestError as error:
            if structured and any(word in str(error) for word in ("response_format", "json_schema", "structured")):
                self._structured = False
                raise _BadReply("the server takes no response_format") from None
            raise
        return _validated(_text_of(completion), shape)

    async def _send(self, client: AsyncOpenAI, asked: dict[str, Any]) -> ChatCompletion:
        import openai

        self._check_limits()
        self.usage.requests += 1
        try:
            async with asyncio.timeout(self.settings.deadline):
                completion = await client.chat.completions.create(model=self.settings.model, stream=False, **asked)
        except (json.JSONDecodeError, UnicodeDecodeError, openai.APIResponseValidationError) as error:
            raise _BadReply(f"the server's answer is not JSON: {error}") from None
        self._pay(completion)
        return completion

    def _check_limits(self) -> None:
        settings, usage = self.settings, self.usage
        spent = [
            ("requests", usage.requests, settings.max_requests),
            ("tokens", usage.tokens_in + usage.tokens_out, settings.max_tokens),
            ("cost", usage.cost, settings.max_cost),
        ]
        for name, used, limit in spent:
            if limit is not None and used >= limit:
                raise BudgetSpent(f"the limit of {name} is reached ({used:g} of {limit:g})")

    def _pay(self, completion: Any) -> None:
        used = getattr(completion, "usage", None)
        read = _count(getattr(used, "prompt_tokens", None))
        written = _count(getattr(used, "completion_tokens", None))
        self.usage.tokens_in += read
        self.usage.tokens_out += written
        self.usage.cost += (read * self.settings.price_in + written * self.settings.price_out) / 1e6

    def _wait(self, state: Any) -> float:
        """Doubles from try to try with jitter; a server's Retry-After counts where it is longer."""
        grown = self.settings.wait * 2 ** (state.attempt_number - 1) * random.uniform(0.75, 1.25)
        asked = _retry_after(state.outcome.exception())
        return min(max(grown, asked), self.settings.longest_wait)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=target, name="fresh-expg")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _worth_retrying(error: BaseException) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in _RETRIED_STATUS or error.status_code >= 500
    return isinstance(error, _BadReply | TimeoutError | openai.APIConnectionError)


def _say(error: BaseException | None) -> str:
    """The reason in one short line."""
    if isinstance(error, TimeoutError):
        return "no answer within the deadline"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


def _retry_after(error: BaseException | None) -> float:
    response = getattr(error, "response", None)
    try:
        return float(response.headers.get("retry-after", "0")) if response is not None else 0.0
    except ValueError:  # an HTTP date; the usual back-off will do
        return 0.0


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _message_of(completion: Any) -> Any:
    choices = getattr(completion, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    if message is None:
        raise _BadReply("the answer has no choices")
    return message


def _text_of(completion: Any) -> str:
    text = getattr(_message_of(completion), "content", None)
    if not isinstance(text, str) or not text.strip():
        raise _BadReply("the answer is empty")
    return text


def _validated(text: str, shape: type[Reply]) -> Reply:
    """The first JSON object in a text, whatever stands around it, checked against its shape."""
    start = text.find("{")
    if start < 0:
        raise _BadReply("there is no JSON object in it")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError) as error:
        raise _BadReply(f"its JSON is broken: {error}") from None
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _BadReply(f"{where}: {first['msg']}") from None
