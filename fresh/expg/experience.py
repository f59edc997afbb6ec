"""The unit of ExpG: an experience ``E = <h, m, c>`` of one tool call (arXiv 2608.03403, section 3).

``h`` is a content hash, ``m`` what happened (:class:`Invocation`), ``c`` how it is judged (:class:`Judgement`).
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from graph_schema.trajectory import Record, ToolSpec


class AspectGroup(StrEnum):
    """What a group of aspects is about."""

    USE = "use"
    INPUT = "input"
    RESPONSE = "response"


class Party(StrEnum):
    """Who answers for a group of aspects."""

    ENVIRONMENT = "environment"
    AGENT = "agent"
    TOOL = "tool"


class Aspect(StrEnum):
    """The ten aspects, in the order of the score vector."""

    NEEDED_NOW = "needed_now"
    RIGHT_TOOL = "right_tool"
    REQUIRED_GIVEN = "required_given"
    VALUES_VALID = "values_valid"
    FORMAT_RIGHT = "format_right"
    MATCHES_CONTEXT = "matches_context"
    MEANINGFUL = "meaningful"
    MATCHES_FUNCTION = "matches_function"
    RIGHT_FOR_INPUT = "right_for_input"
    HELPS_TASK = "helps_task"

    @property
    def place(self) -> int:
        """Position in the score vector, 0 to 9."""
        return _INDEX[self]

    @property
    def group(self) -> AspectGroup:
        """Use for the first two, input for the next four, response for the last four."""
        if self.place < 2:
            return AspectGroup.USE
        return AspectGroup.INPUT if self.place < 6 else AspectGroup.RESPONSE

    @property
    def party(self) -> Party:
        """The environment for use, the agent for input, the tool for the response."""
        return _PARTY[self.group]

    @property
    def fault(self) -> str:
        """What a score of 0 says, as a phrase for people and prompts."""
        return _FAULTS[self]


ASPECTS: tuple[Aspect, ...] = tuple(Aspect)
_INDEX = {aspect: index for index, aspect in enumerate(ASPECTS)}
_PARTY = {
    AspectGroup.USE: Party.ENVIRONMENT,
    AspectGroup.INPUT: Party.AGENT,
    AspectGroup.RESPONSE: Party.TOOL,
}
_FAULTS = {
    Aspect.NEEDED_NOW: "called too early or again for nothing",
    Aspect.RIGHT_TOOL: "not the tool for this step",
    Aspect.REQUIRED_GIVEN: "a required parameter is missing",
    Aspect.VALUES_VALID: "a parameter is unsupported or out of its allowed values",
    Aspect.FORMAT_RIGHT: "a parameter has the wrong type or format",
    Aspect.MATCHES_CONTEXT: "a value stood nowhere in the context",
    Aspect.MEANINGFUL: "the response says nothing or is an error",
    Aspect.MATCHES_FUNCTION: "the response is not what this tool returns",
    Aspect.RIGHT_FOR_INPUT: "the response does not answer this input",
    Aspect.HELPS_TASK: "the response was of no use afterwards",
}

Bit = Literal[0, 1]
ScoreVector = tuple[Bit, Bit, Bit, Bit, Bit, Bit, Bit, Bit, Bit, Bit]
PERFECT: ScoreVector = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1)


class Invocation(Record):
    """What happened in one call: the ``m`` of an experience.

    Attributes:
        tool: The tool and its schema; a bare name when the trace lists no tools.
        context: What the agent had before it, cut to its beginning and its end.
        context_hash: Hash of the whole context, so that the cut never makes two contexts one.
        input: The arguments object; None when the recorded text is not one.
        raw_input: The recorded text where ``input`` is None, else empty.
        response: The tool's answer, long ones cut in the middle.
        response_hash: Hash of the whole response.
        success: The tool answered without an error.
        seconds: Time cost, if recorded.
        tokens: Token cost, if recorded.
        origins: Where each argument's value first stood: ``request``, ``user``, ``result``, ``policy``,
            ``schema`` or ``nowhere``; parameters whose origin cannot be told are left out.
        previous: The tool called before this one in the run.
        call: Id of the call.
        run: Id of the trajectory.
        domain: The environment the tool belongs to; tools of one name in two domains are two tools.
        task: Key of the task, which tells apart what is common from what belongs to one customer.
        time: When it was learnt, in any increasing unit (seconds since the epoch, or a round number); all calls
            of one run share it. None when nothing tells.
    """

    tool: ToolSpec
    context: str = ""
    context_hash: str = ""
    input: dict[str, Any] | None = None
    raw_input: str = ""
    response: str = ""
    response_hash: str = ""
    success: bool = True
    seconds: float | None = None
    tokens: int | None = None
    origins: dict[str, str] = Field(default_factory=dict)
    previous: str | None = None
    call: str = ""
    run: str = ""
    domain: str = ""
    task: str = ""
    time: float | None = None

    @cached_property
    def key(self) -> str:
        """``h``: hash of tool, context, input and response, 32 hex digits."""
        given = self.raw_input if self.input is None else canonical(self.input)
        parts = (
            self.tool.name,
            self.context_hash or digest(self.context),
            given,
            self.response_hash or digest(self.response),
        )
        return digest("\0".join(parts))


class Judgement(Record):
    """How a call is judged: the ``c`` of an experience.

    Attributes:
        scores: Ten binary scores in the order of :class:`Aspect`.
        unknown: Indices of the aspects that could not be decided. They stand in ``scores`` as 1: a call is not
            blamed for what nobody can tell. A consumer that wants only decided scores leaves these out.
        explanation: Why, in one or two sentences.
    """

    scores: ScoreVector
    unknown: tuple[Annotated[int, Field(ge=0, le=9)], ...] = ()
    explanation: str = ""


class Experience(Record):
    """One judged call, ``E = <h, m, c>``."""

    key: str
    invocation: Invocation
    judgement: Judgement

    @classmethod
    def of(cls, invocation: Invocation, judgement: Judgement) -> Experience:
        """Joins ``m`` and ``c`` under the hash of ``m``."""
        return cls(key=invocation.key, invocation=invocation, judgement=judgement)

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return self.invocation.tool.name

    @property
    def scores(self) -> ScoreVector:
        """The ten scores."""
        return self.judgement.scores

    @property
    def total(self) -> int:
        """Sum of the ten scores, 0 to 10."""
        return sum(self.judgement.scores)

    @cached_property
    def tokens(self) -> int:
        """Length in tokens as a summariser reads it: input, response, context and explanation."""
        m = self.invocation
        given = m.raw_input if m.input is None else canonical(m.input)
        size = len(m.tool.name) + len(m.context) + len(given) + len(m.response)
        return estimate_tokens(size + len(self.judgement.explanation) + _FRAME)


_FRAME = 60  # characters of field names and punctuation around the parts when serialised
CHARACTERS_PER_TOKEN = 4


def estimate_tokens(characters: int) -> int:
    """Tokens of a text of so many characters, four to a token, rounded up.

    A tokenizer would be exact for one model only; budgets here need the same answer on every machine.
    """
    return -(-characters // CHARACTERS_PER_TOKEN)


def digest(text: str) -> str:
    """Hash of a text, 32 hex digits; lone surrogates are allowed."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def canonical(value: Any) -> str:
    """JSON of a value with sorted keys, the same for equal values."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # integers beyond 64 bits and lone surrogates, which orjson refuses
        import json

        return json.dumps(value, sort_keys=True, default=str)
