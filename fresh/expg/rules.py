"""The rules of the rule-based evaluator, one function an aspect or a group of aspects.

Every rule answers 1, 0 or None: None where the trace cannot tell. Rules look at the call, at what stood before it
and at what the agent did with the answer; none looks at how the run ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fresh.expg.experience import Aspect, canonical
from fresh.expg.history import History
from fresh.expg.observed import is_identifier, leaves, scalars, value_words, vocabulary
from fresh.expg.record import NOWHERE, RecordedCall
from fresh.expg.schema_check import SchemaVerdict
from fresh.expg.shapes import EMPTY, ResponseShapes, kind_of
from fresh.traces.structure import parse_observation
from fresh.traces.tools import infer_effect
from graph_schema.trajectory import CallStatus, Effect, Role, ToolCall, ToolSpec, Trajectory

_UNKNOWN_TOOL = re.compile(
    r"\b(?:unknown|no such|invalid|unsupported|non-?existent|undefined)\s+(?:tool|function)\b"
    r"|\b(?:tool|function)\b[^.\n]{0,60}\b(?:not found|does not exist|not available|is unknown|not defined)\b",
    re.IGNORECASE,
)


@dataclass
class Findings:
    """Scores decided so far and why those that are 0 are."""

    scores: dict[Aspect, int] = field(default_factory=dict)
    reasons: dict[Aspect, str] = field(default_factory=dict)

    def note(self, aspect: Aspect, score: int | None, reason: str = "") -> None:
        """Takes one rule's answer; None leaves the aspect undecided."""
        if score is None:
            return
        self.scores[aspect] = score
        if not score:
            self.reasons[aspect] = reason or aspect.fault


@dataclass(frozen=True)
class Scene:
    """One call with all that the rules may look at.

    Attributes:
        trajectory: The run.
        history: Its words.
        recorded: All its answered calls in order.
        position: Index of the call in ``recorded``.
        offered: Names of the tools offered in the run; None when the trace does not list them.
        shapes: Usual response shapes.
        shape: Key of this call's tool in ``shapes``.
        keys: ``tool(arguments)`` of every recorded call, to find repeats.
    """

    trajectory: Trajectory
    history: History
    recorded: Sequence[RecordedCall]
    position: int
    offered: frozenset[str] | None
    shapes: ResponseShapes
    shape: str
    keys: Sequence[str]

    @property
    def here(self) -> RecordedCall:
        """The call judged."""
        return self.recorded[self.position]

    @property
    def call(self) -> ToolCall:
        """The call as recorded."""
        return self.here.call

    @property
    def effect(self) -> Effect:
        """What the tool does: as somebody said, else as its name suggests."""
        return effect_of(self.here.invocation.tool)

    @property
    def text(self) -> str:
        """The whole response."""
        return self.call.observation.text if self.call.observation else ""


def effect_of(spec: ToolSpec) -> Effect:
    """What a tool does: as its description says, else as its name suggests."""
    return spec.effect or infer_effect(spec.name)


def call_key(call: ToolCall) -> str:
    """Tool and arguments, equal for equal calls."""
    given = call.raw_arguments if call.arguments is None else canonical(call.arguments)
    return f"{call.tool}({given})"


def judge_input(scene: Scene, verdict: SchemaVerdict, findings: Findings) -> None:
    """Required parameters, valid values, format, and values found in the context."""
    m = scene.here.invocation
    if m.input is None:
        findings.note(Aspect.FORMAT_RIGHT, 0, "the arguments are not a JSON object")
        if m.tool.parameters.get("required"):
            findings.note(Aspect.REQUIRED_GIVEN, 0, "no parameter could be read")
        return
    if verdict.decided:
        for aspect in (Aspect.REQUIRED_GIVEN, Aspect.VALUES_VALID, Aspect.FORMAT_RIGHT):
            findings.note(aspect, int(aspect not in verdict.faults), verdict.faults.get(aspect, ""))
    findings.note(Aspect.MATCHES_CONTEXT, grounded(scene), f"{_ungrounded(m.origins)} stood nowhere before the call")


def grounded(scene: Scene) -> int | None:
    """0 if an identifier stood nowhere before the call, 1 if every value stood somewhere, else None."""
    m = scene.here.invocation
    if m.input is None:
        return None
    if NOWHERE in m.origins.values():
        return 0
    given = {name for name, value in leaves(m.input) if value_words(value)}
    return 1 if given <= m.origins.keys() else None


def _ungrounded(origins: Mapping[str, str]) -> str:
    return ", ".join(name for name, origin in origins.items() if origin == NOWHERE)


def judge_use(scene: Scene, findings: Findings) -> None:
    """Called now: not too early, not again for nothing. The right tool: offered, existing, not replaced at once."""
    if repeated_for_nothing(scene):
        findings.note(Aspect.NEEDED_NOW, 0, "the same call was made before and nothing had changed since")
    else:
        missing = _ungrounded(scene.here.invocation.origins)
        findings.note(Aspect.NEEDED_NOW, grounded(scene), f"called before {missing} was known")
    score, reason = _right_tool(scene, findings)
    findings.note(Aspect.RIGHT_TOOL, score, reason)


def repeated_for_nothing(scene: Scene) -> bool:
    """The run made this very call before, and since then nobody spoke and nothing that may write succeeded."""
    key = scene.keys[scene.position]
    for index in range(scene.position - 1, -1, -1):
        earlier = scene.recorded[index]
        if scene.keys[index] == key:
            return not _user_spoke(scene.trajectory, earlier.turn, scene.here.turn)
        if earlier.invocation.success and effect_of(earlier.invocation.tool) is Effect.WRITE:
            return False
    return False


def _user_spoke(trajectory: Trajectory, start: int, end: int) -> bool:
    return any(turn.role is Role.USER for turn in trajectory.turns[start + 1 : end])


def _right_tool(scene: Scene, findings: Findings) -> tuple[int | None, str]:
    if scene.offered is not None and scene.call.tool not in scene.offered:
        return 0, "no such tool was offered"
    failed = scene.call.status is CallStatus.ERROR
    if failed and _UNKNOWN_TOOL.search(scene.text[:500]):
        return 0, "the answer says that there is no such tool"
    if failed and _replaced_at_once(scene):
        return 0, "another tool did it with the same values right after"
    helped = findings.scores.get(Aspect.HELPS_TASK) == 1
    done = scene.effect is Effect.WRITE and not failed
    return (1 if helped or done else None), ""


def _replaced_at_once(scene: Scene) -> bool:
    """The next call is of another tool of the same effect, shares an identifier, and succeeds."""
    if scene.position + 1 >= len(scene.recorded):
        return False
    following = scene.recorded[scene.position + 1]
    other = following.invocation
    if other.tool.name == scene.call.tool or effect_of(other.tool) is not scene.effect or not other.success:
        return False
    return bool(_identifiers(scene.here.invocation.input) & _identifiers(other.input))


def _identifiers(value: Any) -> set[str]:
    return {leaf for _, leaf in leaves(value or {}) if is_identifier(leaf)}


def judge_response(scene: Scene, findings: Findings) -> None:
    """An error is 0 throughout; else something said, the usual shape, an answer to this input, and used later."""
    group = (Aspect.MEANINGFUL, Aspect.MATCHES_FUNCTION, Aspect.RIGHT_FOR_INPUT, Aspect.HELPS_TASK)
    if scene.call.status is CallStatus.ERROR:
        for aspect in group:
            findings.note(aspect, 0, "the response is an error")
        return
    value = parse_observation(scene.text)
    silent = scene.shapes.usual_kind(scene.shape) == EMPTY
    empty = kind_of(scene.text, value) == EMPTY
    findings.note(Aspect.MEANINGFUL, int(silent or not empty), "the response is empty")
    if scene.call.observation is None or not scene.call.observation.truncated:
        fits = scene.shapes.fits(scene.shape, scene.text, value)
        findings.note(Aspect.MATCHES_FUNCTION, None if fits is None else int(fits), "not this tool's usual shape")
    if empty:
        return
    findings.note(Aspect.RIGHT_FOR_INPUT, _answers_input(scene, value))
    findings.note(Aspect.HELPS_TASK, _used_later(scene), "nothing new in the response was used afterwards")


def _answers_input(scene: Scene, value: Any) -> int | None:
    """1 if a given value comes back, 0 if a field of the same name comes back with another identifier."""
    given = scene.here.invocation.input
    if not given:
        return None
    if isinstance(value, dict):
        for name, argument in given.items():
            echoed = value.get(name)
            if is_identifier(argument) and is_identifier(echoed) and not _same(argument, echoed):
                return 0
    answer = set(vocabulary(scene.text))
    for _, leaf in leaves(given):
        parts = value_words(leaf)
        if parts and _telling(parts[0]) and all(part in answer for part in parts):
            return 1
    return None


def _same(left: Any, right: Any) -> bool:
    return value_words(left) == value_words(right)


def _telling(word: str) -> bool:
    """Long enough not to recur by chance."""
    return len(word) >= 3 or (len(word) == 2 and word.isdigit())


def _used_later(scene: Scene) -> int | None:
    """1 if the agent later writes something that only this response told it.

    0 only for a read: one made again for nothing, or one whose news do not turn up though the agent wrote a message.
    """
    turn = scene.here.turn
    new = [word for word in _content(scene.text) if scene.history.is_new(word, turn)]
    if any(scene.history.used_after(word, turn) for word in new):
        return 1
    if scene.effect is not Effect.READ:
        return None
    unused = bool(new) and scene.history.speaks_after(turn)
    return 0 if unused or repeated_for_nothing(scene) else None


def _content(text: str) -> list[str]:
    """Telling words of a response: of its values, or of its prose the long ones and those with a digit."""
    found = scalars(text)
    if found:
        return [word for _, leaf in found for word in value_words(leaf) if _telling(word)]
    return [word for word in vocabulary(text) if len(word) >= 5 or (_telling(word) and any(map(str.isdigit, word)))]
