"""Guidance for one step: what is done, what comes next, what to avoid and to check now, how to mend what just failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.fill import Filled, fill, required_arguments, source_tool
from fresh.gate.checks import failed_before
from fresh.gate.context import Context
from fresh.gate.decision import Finding
from fresh.gate.gate import Gate
from fresh.gate.rules import check_rules
from fresh.guidance import write
from fresh.guidance.lines import Guidance, Line, Section, estimate_tokens
from fresh.guidance.next_tool import NextTool
from fresh.guidance.ranking import Ranker
from fresh.guidance.settings import GuidanceSettings
from fresh.knowledge import KnownError, Rule, ToolMemory
from fresh.live import Live
from fresh.mining.patterns import error_message
from fresh.redact import Redactor
from fresh.retrieval.bm25 import BM25Index
from fresh.retrieval.query import Query, make_query
from graph_schema.trajectory import CallStatus, Effect, ToolCall, ToolSpec

_PRIORITY = (Section.DO, Section.REPAIR, Section.CHECK, Section.AVOID, Section.DONE)
"""Which lines are dropped last when the budget is short."""
_MAX_DONE = 5
_MAX_TOOLS_TRIED = 6
_DEPTH = 2
"""Longest chain of look-ups put before an action: a look-up and the one that it needs."""


class Guide:
    """Makes guidance from a memory.

    Args:
        gate: The gate of the same memory; its conditions are what Check and the order under Do are made of.
        bm25: Index over the node texts, to find similar tasks.
        ranker: Scores of nodes.
        settings: Budget and weights.
    """

    def __init__(
        self, gate: Gate, bm25: BM25Index, ranker: Ranker, settings: GuidanceSettings | None = None
    ) -> None:
        self._gate = gate
        self._bm25 = bm25
        self._ranker = ranker
        self.settings = settings or GuidanceSettings()
        self._next = NextTool(gate.index, self.settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._ranker!r})"

    def guide(
        self,
        live: Live,
        specs: Mapping[str, ToolSpec] | None = None,
        *,
        budget: int | None = None,
        provenance: bool = False,
    ) -> Guidance:
        """Guidance for the next step.

        Args:
            live: The history so far.
            specs: The caller's tools by name; None when there is no list.
            budget: Most tokens, by `estimate_tokens`; the settings' when None.
            provenance: Name for each line the runs behind it.
        """
        query = make_query(live.history, specs)
        step = _Step(self._gate, self.settings, live, specs, query)
        if live.history.turns:
            relevance = self._ranker.scores(query)
            similar = self._bm25.scores(query.request) if query.request else relevance * 0
            step.plan(self._next.scores(query, relevance, similar))
        lines = _fit(_clean(step.lines(), step), self.settings.token_budget if budget is None else budget)
        if provenance:
            runs = self._gate.index.runs
            lines = [
                line.model_copy(update={"runs": runs(line.node)}) if line.node is not None else line
                for line in lines
            ]
        return Guidance(lines=tuple(lines))


@dataclass(frozen=True)
class _Action:
    """An action put under Do.

    Attributes:
        arguments: Those with a value.
        filled: What is known of each argument.
    """

    tool: ToolMemory
    arguments: dict[str, Any]
    filled: dict[str, Filled]


class _Step:
    """One step's guidance under construction."""

    def __init__(
        self,
        gate: Gate,
        settings: GuidanceSettings,
        live: Live,
        specs: Mapping[str, ToolSpec] | None,
        query: Query,
    ) -> None:
        self.gate = gate
        self.settings = settings
        self.live = live
        self.specs = specs
        self.query = query
        self.actions: list[_Action] = []
        self.checks: list[tuple[ToolMemory, Rule, str]] = []
        self.likely: list[ToolMemory] = []

    # -- what comes next ------------------------------------------------------------------------------------------

    def plan(self, ranked: Sequence[tuple[ToolMemory, float]]) -> None:
        """Picks the next actions, each after what it needs first."""
        best = ranked[0][1] if ranked else 0.0
        for tool, score in ranked[:_MAX_TOOLS_TRIED]:
            if len(self.actions) >= self.settings.max_do or score < self.settings.min_share * best:
                return
            self.likely.append(tool)
            self._add(tool, _DEPTH)

    def _add(self, tool: ToolMemory, depth: int, known: Mapping[str, Any] | None = None) -> None:
        """Adds an action, what it needs first before it; nothing if it is done or has failed unchanged."""
        action = self._fill(tool, known)
        context = self._context(tool, action.arguments)
        if self._is_done(action, context) or failed_before(context)[0]:
            return
        if depth:
            for other, given in self._needed(action, context):
                self._add(other, depth - 1, given)
        full = len(self.actions) >= self.settings.max_do
        if not full and all(
            a.tool.name != tool.name or a.arguments != action.arguments for a in self.actions
        ):
            self.actions.append(action)

    def _fill(self, tool: ToolMemory, known: Mapping[str, Any] | None) -> _Action:
        parameters = self._parameters(tool.name)
        properties = (parameters or {}).get("properties") or {}
        names = required_arguments(tool, parameters)
        filled = {name: fill(name, tool, self.live, properties.get(name)) for name in names}
        arguments = {name: item.value for name, item in filled.items() if item.certain} | dict(known or {})
        for name, value in (known or {}).items():
            filled[name] = Filled(name, value, (value,), filled[name].source if name in filled else "", True)
        if not known and tool.effect is not Effect.WRITE:
            arguments = self._not_yet_asked(tool, arguments, filled)
        return _Action(tool, arguments, filled)

    def _not_yet_asked(
        self, tool: ToolMemory, arguments: dict[str, Any], filled: dict[str, Filled]
    ) -> dict[str, Any]:
        """A look-up is made once for each object: takes the next one where the first is done."""
        for name, item in filled.items():
            for value in item.candidates:
                tried = {**arguments, name: value}
                if self.live.history.last_same(tool.name, tried) is None:
                    if name in arguments and tried != arguments and self._answered(tool, arguments):
                        return tried
                    break
        return arguments

    def _answered(self, tool: ToolMemory, arguments: dict[str, Any]) -> bool:
        return self.live.history.answered(tool.name, arguments) is not None

    def _is_done(self, action: _Action, context: Context) -> bool:
        """Whether the same call has gone through and, for a look-up, nothing was written since."""
        last = self.live.history.last_same(action.tool.name, action.arguments)
        if last is None:
            incomplete = bool(write.missing(action.filled, action.arguments))
            return (
                action.tool.effect is not Effect.WRITE
                and incomplete
                and self._answered(action.tool, action.arguments)
            )
        if last.status is not CallStatus.OK or context.effect is Effect.WRITE:
            return last.status is CallStatus.OK
        for call in reversed(self.live.history.agent_calls):
            if call is last:
                return True
            if call.status is CallStatus.OK and context.effect_of(call.tool) is Effect.WRITE:
                return False
        return True

    def _needed(self, action: _Action, context: Context) -> Iterator[tuple[ToolMemory, dict[str, Any]]]:
        """Look-ups that must come before an action: what its conditions demand, and what shows its missing values."""
        if context.effect is Effect.WRITE:
            rules = {rule.node: rule for rule in context.rules}
            for finding in check_rules(context):
                calls = [todo for todo in finding.todo if todo.kind == "call"]
                for todo in calls:
                    other = self.gate.index.get(todo.tool)
                    if other is not None:
                        yield other, todo.arguments
                if not calls and finding.node in rules:
                    self.checks.append((action.tool, rules[finding.node], _missing_now(finding)))
        for name in write.missing(action.filled, action.arguments):
            source = action.tool.sources.get(name) or ()
            other = (
                self.gate.index.get(source_tool(source[0][0]))
                if source and not action.filled[name].candidates
                else None
            )
            if (
                other is not None
                and self._offers(other.name)
                and self.live.history.answered(other.name) is None
            ):
                yield other, {}

    def _context(self, tool: ToolMemory, arguments: dict[str, Any]) -> Context:
        call = ToolCall.model_construct(
            id="next",
            tool=tool.name,
            arguments=arguments,
            raw_arguments="",
            parse_error=None,
            by_user=False,
            observation=None,
        )
        rules = self.gate.rules(tool.name)
        return Context(call, self.live, self.specs, self.gate.index, self.gate.settings, rules, 0)

    def _parameters(self, tool: str) -> Mapping[str, Any] | None:
        spec = (self.specs or {}).get(tool)
        return spec.parameters if spec is not None and spec.parameters else None

    def _offers(self, tool: str) -> bool:
        return self.specs is None or tool in self.specs

    # -- lines ----------------------------------------------------------------------------------------------------

    def lines(self) -> list[Line]:
        """All lines, each section within its own bound."""
        return [
            *self._done(),
            *self._do(),
            *_first(self._avoid(), self.settings.max_avoid),
            *_first(self._check(), self.settings.max_check),
            *_first(self._repair(), self.settings.max_repair),
        ]

    def _done(self) -> Iterator[Line]:
        done = Counter(call.tool for call in self.live.history.agent_calls if call.status is CallStatus.OK)
        if not done:
            return
        shown = [f"{tool} x{count}" if count > 1 else tool for tool, count in list(done.items())[-_MAX_DONE:]]
        yield Line(section=Section.DONE, text=", ".join(shown), confidence=1.0)

    def _do(self) -> Iterator[Line]:
        for action in self.actions:
            yield Line(
                section=Section.DO,
                text=write.call_line(action.tool.name, action.filled, action.arguments),
                confidence=round(action.tool.success_rate, 3),
                node=action.tool.actions[0],
            )

    def _avoid(self) -> Iterator[Line]:
        for call, times in self._failed_unchanged():
            shown = {name: value for name, value in (call.arguments or {}).items()}
            text = write.call_line(call.tool, {}, {n: v for n, v in shown.items() if write.value_words(n, v)})
            again = "it failed" if times == 1 else f"it failed {times} times"
            text = f"do not {text} again: {again} and nothing has changed since"
            yield Line(section=Section.AVOID, text=text, confidence=1.0)
        mended = self._last_error[1] if self._last_error else None
        for tool in [action.tool for action in self.actions] or self.likely[:1]:
            for error in tool.errors:
                if error.runs >= self.settings.min_error_runs and error is not mended:
                    share = (error.times + 1) / (tool.success + tool.failure + 2)
                    text = write.error_line(tool.name, error)
                    yield Line(
                        section=Section.AVOID,
                        text=text,
                        confidence=round(min(1.0, share), 3),
                        node=error.node,
                    )
                    break

    def _failed_unchanged(self) -> Iterator[tuple[ToolCall, int]]:
        seen: list[ToolCall] = []
        for call in reversed(self.live.history.agent_calls):
            if call.status is not CallStatus.ERROR or call.arguments is None:
                continue
            if any(call.tool == other.tool and call.arguments == other.arguments for other in seen):
                continue
            seen.append(call)
            context = Context(call, self.live, self.specs, self.gate.index, self.gate.settings, (), 0)
            times = failed_before(context)[0]
            if times:
                yield call, times

    def _check(self) -> Iterator[Line]:
        for tool, rule, now in self.checks:
            text = write.check_line(tool.name, rule.condition, now)
            yield Line(section=Section.CHECK, text=text, confidence=round(rule.confidence, 3), node=rule.node)
        for action in self.actions:
            context = self._context(action.tool, action.arguments)
            for rule in context.rules:
                if (
                    rule.condition.kind == "field_is"
                    and rule.condition.holds(action.arguments, self.live.history) is None
                ):
                    text = write.check_line(action.tool.name, rule.condition)
                    yield Line(
                        section=Section.CHECK, text=text, confidence=round(rule.confidence, 3), node=rule.node
                    )

    @cached_property
    def _last_error(self) -> tuple[ToolCall, KnownError | None] | None:
        """The newest call if it failed, with what memory knows of its error."""
        calls = self.live.history.agent_calls
        if not calls or calls[-1].status is not CallStatus.ERROR or calls[-1].observation is None:
            return None
        call = calls[-1]
        tool = self.gate.index.get(call.tool)
        message = error_message(calls[-1].observation.text, call.arguments)
        return call, tool.error(message) if tool else None

    def _repair(self) -> Iterator[Line]:
        if self._last_error is None or self._last_error[1] is None:
            return
        call, error = self._last_error
        assert error is not None
        for repair in error.repairs:
            if repair.tool and not self._offers(repair.tool):
                continue
            text = write.repair_words(call.tool, repair, self._sources(call.tool, repair.arguments))
            confidence = round((repair.times + 1) / (error.times + 2), 3)
            yield Line(section=Section.REPAIR, text=text, confidence=min(1.0, confidence), node=repair.node)

    def _sources(self, tool: str, names: Sequence[str]) -> str:
        """Where the changed arguments usually come from."""
        known = self.gate.index.get(tool)
        found = [source for name in names[:2] if (source := fill(name, known, self.live).source)]
        return f" ({'; '.join(dict.fromkeys(found))})" if found else ""

    def shown(self) -> Iterator[str]:
        """Texts whose words may stand in guidance: the live history and the caller's tools."""
        for turn in self.live.history.turns:
            yield turn.text
        for _, call in self.live.history.calls:
            yield call.raw_arguments
            if call.observation is not None:
                yield call.observation.text
        for spec in (self.specs or {}).values():
            yield f"{spec.name} {spec.description} {spec.parameters}"


def _missing_now(finding: Finding) -> str:
    """What is missing now, in one clause; for a missing yes the line itself says it."""
    if finding.check == "confirmed":
        return ""
    return finding.reason if finding.check in ("within", "field_is", "grounded") else "not done yet"


def _first(lines: Iterator[Line], count: int) -> Iterator[Line]:
    """The first few different lines; one condition or error is told once."""
    seen: set[Any] = set()
    for line in lines:
        if len(seen) >= count:
            return
        key = line.node if line.node is not None else line.text
        if key not in seen:
            seen.add(key)
            yield line


def _clean(lines: Sequence[Line], step: _Step) -> list[Line]:
    """Every line through the redaction, and no text twice."""
    names = set(step.gate.index.names) if len(step.gate.index.names) < 5_000 else set()
    redactor = Redactor(step.shown, names)
    kept: dict[str, Line] = {}
    for line in lines:
        text = redactor.clean(line.text)
        kept.setdefault(text, line.model_copy(update={"text": text}))
    return list(kept.values())


def _fit(lines: Sequence[Line], budget: int) -> list[Line]:
    """The lines that fit into the budget, the most useful sections first; each section in its order."""
    kept: list[Line] = []
    for section in _PRIORITY:
        for line in lines:
            if line.section is section and estimate_tokens(Guidance(lines=(*kept, line)).text) <= budget:
                kept.append(line)
    if all(line.section is Section.DONE for line in kept):
        return []  # what is done stands in the history already
    order = {id(line): position for position, line in enumerate(lines)}
    return sorted(kept, key=lambda line: order[id(line)])
