"""Guidance for one step: what is done, what comes next, what to avoid and check, how to mend what just failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from fresh.conditions import Condition, FieldIs, argument_values
from fresh.conditions.words import stems
from fresh.fill import fill, rewritten
from fresh.gate.checks import failed_before
from fresh.gate.context import Context
from fresh.gate.decision import Finding
from fresh.gate.gate import Gate
from fresh.gate.progress import is_refusal
from fresh.guidance import write
from fresh.guidance.foresight import Foresight, Risk
from fresh.guidance.lines import Guidance, Line, Section, estimate_tokens
from fresh.guidance.next_tool import NextTool
from fresh.guidance.outlook import Expected, Forecast, Outlook, likeliest_set
from fresh.guidance.plan import Action, Plan, Planner
from fresh.guidance.ranking import Ranker
from fresh.guidance.settings import GuidanceSettings
from fresh.history import stands_in
from fresh.knowledge import KnownError
from fresh.live import Live
from fresh.mining.patterns import error_message, in_words
from fresh.redact import Redactor
from fresh.retrieval.query import make_query
from fresh.titles import with_title
from fresh.values import argument_leaves, argument_name, normalise
from graph_schema.trajectory import CallStatus, ToolCall, ToolSpec

_PRIORITY = (Section.DO, Section.THEN, Section.REPAIR, Section.CHECK, Section.AVOID, Section.DONE)
"""Which lines are dropped last when the budget is short."""
_MAX_DONE = 5
_SHARE_OF_DO = 1 / 2
"""Of the budget, that the lines under Do may take; an action that takes more is told in fewer words."""
_SHORTEST_NAMED = 3
"""Characters of a value that is looked for in an error; shorter ones stand anywhere."""
_TOOL_NAME = re.compile(r"[^\s<>\"'`]{0,128}")
"""What can be a tool's name. Recorded runs and foreign servers can hold others, with a line of orders in them."""


class Guide:
    """Makes guidance from a memory.

    Args:
        gate: The gate of the same memory; its conditions are what Check and the order under Do are made of.
        ranker: Scores of nodes, and their likeness to the request.
        settings: Budget and weights.
    """

    def __init__(self, gate: Gate, ranker: Ranker, settings: GuidanceSettings | None = None) -> None:
        self._gate = gate
        self._ranker = ranker
        self.settings = settings or GuidanceSettings()
        self._outlook = Outlook(gate.index, self.settings)
        self._next = NextTool(gate, self.settings, self._outlook)
        self._foresight = Foresight(gate.index, self.settings.min_error_runs)

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
        planner = Planner(self._gate, self.settings, live, specs)
        plan = Plan()
        forecast, expected = Forecast(), list[Expected]()
        if live.history.turns:
            query = make_query(live.history, specs)
            relevance = self._ranker.scores(query)
            similar = self._ranker.likeness(query)
            forecast = self._outlook.forecast(query, relevance, similar)
            expected = [e for e in likeliest_set(forecast.expected) if e.chance >= self.settings.min_chance]
            among = forecast.habits(self.settings.min_habit) | {item.tool: item.chance for item in expected}
            plan = planner.plan(self._next.scores(query, relevance, similar, among))
        risks = self._foresight.risks(forecast.calls, self.settings.min_error_chance)
        budget = self.settings.token_budget if budget is None else budget
        writer = _Writer(self._gate, self.settings, live, specs, planner, plan, expected, risks, budget)
        lines = _fit(_clean(writer.lines(), writer), budget)
        if provenance:
            lines = [self._with_runs(line) for line in lines]
        return Guidance(lines=tuple(lines))

    def _with_runs(self, line: Line) -> Line:
        if line.node is None:
            return line
        return line.model_copy(update={"runs": self._gate.index.runs(line.node)})


class _Writer:
    """Writes the lines of one step."""

    def __init__(
        self,
        gate: Gate,
        settings: GuidanceSettings,
        live: Live,
        specs: Mapping[str, ToolSpec] | None,
        planner: Planner,
        plan: Plan,
        expected: Sequence[Expected],
        risks: Iterable[Risk],
        budget: int,
    ) -> None:
        self.index = gate.index
        self._gate = gate
        self._settings = settings
        self._live = live
        self._specs = specs
        self._planner = planner
        self._plan = plan
        self._expected = expected
        self._risks = risks
        self._budget = budget

    def lines(self) -> list[Line]:
        """All lines, each section within its own bound."""
        return [
            *self._done(),
            *self._do(),
            *self._then(),
            *_first(self._avoid(), self._settings.max_avoid),
            *_first(self._check(), self._settings.max_check),
            *_first(self._repair(), self._settings.max_repair),
        ]

    def shown(self) -> Iterator[str]:
        """Texts whose words may stand in guidance: the live history and the caller's tools."""
        for turn in self._live.history.turns:
            yield turn.text
        for _, call in self._live.history.calls:
            yield call.raw_arguments
            if call.observation is not None:
                yield call.observation.text
        for spec in (self._specs or {}).values():
            yield f"{spec.name} {spec.description} {spec.parameters}"

    def tool_names(self) -> Iterator[str]:
        """Every name of a tool that a line may hold."""
        yield from self.index.names
        for _, call in self._live.history.calls:
            yield call.tool

    def _done(self) -> Iterator[Line]:
        done = Counter(call.tool for call in self._live.history.agent_calls if call.status is CallStatus.OK)
        if not done:
            return
        shown = [f"{tool} x{count}" if count > 1 else tool for tool, count in list(done.items())[-_MAX_DONE:]]
        yield Line(section=Section.DONE, text=", ".join(shown), confidence=1.0)

    def _do(self) -> Iterator[Line]:
        left = _SHARE_OF_DO * self._budget
        for action in self._plan.actions:
            forms = write.call_forms(action.tool.name, action.filled, action.arguments, self._titled)
            text = next((form for form in forms if estimate_tokens(form) <= left), forms[-1])
            left -= estimate_tokens(text)
            yield Line(
                section=Section.DO,
                text=text,
                confidence=round(action.tool.success_rate, 3),
                node=action.tool.actions[0],
            )

    def _titled(self, value: Any) -> str:
        """A value to choose from, with what it stands for."""
        return with_title(value, self._live.history, self._tools_in_words)

    @cached_property
    def _tools_in_words(self) -> frozenset[str]:
        called = {call.tool for _, call in self._live.history.calls}
        return self.index.names_in_words | set(map(in_words, {*(self._specs or ()), *called}))

    def _then(self) -> Iterator[Line]:
        """What is likely to be needed after the actions under Do, in the order it usually comes."""
        now = {action.tool.name for action in self._plan.actions} | self._plan.barred
        later = [item for item in self._expected if item.tool not in now][: self._settings.max_then]
        if not later:
            return
        later.sort(key=lambda item: (item.place, -item.chance))
        text = "call " + ", then ".join(item.tool for item in later)
        yield Line(section=Section.THEN, text=text, confidence=round(min(item.chance for item in later), 3))

    def _avoid(self) -> Iterator[Line]:
        for call, times in self._failed_unchanged():
            shown = {name: v for name, v in (call.arguments or {}).items() if write.value_words(name, v)}
            again = "it failed" if times == 1 else f"it failed {times} times"
            text = f"do not {write.call_line(call.tool, {}, shown)} again: {again} and nothing has changed since"
            yield Line(section=Section.AVOID, text=text, confidence=1.0)
        for tool, risks in self._by_tool().items():
            said = [str(self.index.graph.data(risk.node).get("message", "")) for risk in risks]
            chance = min(1.0, sum(risk.chance for risk in risks))
            text = write.errors_line(tool, said)
            yield Line(section=Section.AVOID, text=text, confidence=round(chance, 3), node=risks[0].node)

    def _by_tool(self) -> dict[str, list[Risk]]:
        """The likeliest errors that the run has not shown yet, by tool, the likeliest first."""
        found: dict[str, list[Risk]] = {}
        for risk in self._risks:
            if risk.node not in self._made:
                found.setdefault(risk.tool, []).append(risk)
        return {tool: risks[: self._settings.max_errors] for tool, risks in found.items()}

    @cached_property
    def _made(self) -> set[int]:
        """Error nodes that this run has shown."""
        made = set()
        for call in self._live.history.agent_calls:
            tool = self.index.get(call.tool) if call.status is CallStatus.ERROR else None
            if tool is not None and call.observation is not None:
                error = tool.error(error_message(call.observation.text, call.arguments))
                made |= {error.node} if error is not None else set()
        return made

    def _failed_unchanged(self) -> Iterator[tuple[ToolCall, int]]:
        """Calls that failed and would fail again, newest first, each once."""
        seen: list[ToolCall] = []
        for call in reversed(self._live.history.agent_calls):
            if call.status is not CallStatus.ERROR or call.arguments is None:
                continue
            if any(call.tool == other.tool and call.arguments == other.arguments for other in seen):
                continue
            seen.append(call)
            context = Context(call, self._live, self._specs, self.index, self._gate.settings, (), 0)
            times = failed_before(context)[0]
            if times:
                yield call, times

    def _check(self) -> Iterator[Line]:
        for tool, rule, finding in self._plan.unmet:
            text = write.check_line(tool.name, rule.condition, _missing_now(finding))
            yield Line(section=Section.CHECK, text=text, confidence=round(rule.confidence, 3), node=rule.node)
        for action in self._plan.actions:
            for rule in self._planner.context(action.tool, action.arguments).rules:
                if self._is_unread(rule.condition, action):
                    text = write.check_line(action.tool.name, rule.condition)
                    confidence = round(rule.confidence, 3)
                    yield Line(section=Section.CHECK, text=text, confidence=confidence, node=rule.node)

    def _is_unread(self, condition: Condition, action: Action) -> bool:
        """Whether an action depends on the state of an object that has not been looked at."""
        if not isinstance(condition, FieldIs) or condition.holds(action.arguments, self._live.history) is not None:
            return False
        item = action.filled.get(argument_name(condition.argument))
        names = argument_values(action.arguments, condition.argument) or (item.candidates if item else ())
        return not names or any(self._live.history.object_of(name) is None for name in names)

    @cached_property
    def _last_error(self) -> tuple[ToolCall, KnownError | None] | None:
        """The newest call if it failed, with what memory knows of its error."""
        calls = self._live.history.agent_calls
        if not calls or calls[-1].status is not CallStatus.ERROR or calls[-1].observation is None:
            return None
        if is_refusal(calls[-1]):
            return None  # the gate's own answer says what to do
        tool = self.index.get(calls[-1].tool)
        message = error_message(calls[-1].observation.text, calls[-1].arguments)
        return calls[-1], tool.error(message) if tool else None

    def _repair(self) -> Iterator[Line]:
        call, error = self._last_error or (None, None)
        if call is None:
            return
        yield from self._repair_writing(call)
        if error is None:
            yield from self._repair_unknown(call)
            return
        for repair in error.repairs:
            if repair.tool and self._specs is not None and repair.tool not in self._specs:
                continue
            text = write.repair_words(call.tool, repair, self._sources(call.tool, repair.arguments))
            confidence = min(1.0, round((repair.times + 1) / (error.times + 2), 3))
            yield Line(section=Section.REPAIR, text=text, confidence=confidence, node=repair.node)

    def _repair_writing(self, call: ToolCall) -> Iterator[Line]:
        """A value that the history writes otherwise than the failed call: with a sign before it, in capitals."""
        for path, value in argument_leaves(call.arguments):
            options = rewritten(value, self._live)
            if options and (shown := write.value_words(path, options[0])):
                text = write.rewrite_words(call.tool, path, shown)
                yield Line(section=Section.REPAIR, text=text, confidence=1.0)

    def _repair_unknown(self, call: ToolCall) -> Iterator[Line]:
        """What an error that memory has never seen says by itself: which argument it speaks of."""
        names = _named_in_error(call)
        if names:
            text = write.change_words(call.tool, names, self._sources(call.tool, names))
            yield Line(section=Section.REPAIR, text=text, confidence=1.0)

    def _sources(self, tool: str, names: Sequence[str]) -> str:
        """Where the changed arguments usually come from."""
        known = self.index.get(tool)
        found = [source for name in names[:2] if (source := fill(name, known, self._live).source)]
        return f" ({'; '.join(dict.fromkeys(found))})" if found else ""


def _named_in_error(call: ToolCall) -> list[str]:
    """Arguments of a failed call whose value its error names; of several, those whose name it speaks of most."""
    text = call.observation.text.lower() if call.observation is not None else ""
    found = {
        argument_name(path): len(stems(in_words(argument_name(path))) & stems(text))
        for path, value in argument_leaves(call.arguments)
        if (key := normalise(value)) is not None and len(key) >= _SHORTEST_NAMED and stands_in(key, text)
    }
    most = max(found.values(), default=0)
    return [name for name, words in found.items() if words == most]


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


def _clean(lines: Sequence[Line], writer: _Writer) -> list[Line]:
    """Every line through the redaction, no text twice, and none with a tool's name that holds more than a name."""
    redactor = Redactor(writer.shown, writer.index)
    kept: dict[str, Line] = {}
    odd = [name for name in writer.tool_names() if not _TOOL_NAME.fullmatch(name)]
    for line in lines:
        if any(name in line.text for name in odd):
            continue
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
