"""DRAFT-style memory: the tools' descriptions rewritten from what calling them has shown.

DRAFT has a model try a tool out, compare what came back with what the description promises, and rewrite it, again and
again until nothing changes. Here the recorded calls are the trials, and rules rewrite: what the tool does, the form of
a call that worked, where each argument's value came from, what comes back, and the errors with what resolved them. The
rewritten descriptions go into the tool list; for a reader of text they are the lines on the tools that the moment is
most about, since DRAFT knows tools and no order of calls.

Source: Qu et al., "From Exploration to Mastery: Enabling LLMs to Master Tools via Self-Driven Interactions"
(arXiv 2410.08197).
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import orjson

from fresh.live import plain
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, encoder_of
from inference.baselines.recorded import Recorded, Step, read
from inference.baselines.toolbox import Toolbox, first_sentence
from inference.baselines.wording import Writer, failure_line, fix_words

_TOOLS = 3
"""Tools of which the lines are shown."""
_ERRORS = 3
_MAX_FIELDS = 8
_MOSTLY = 0.6


@dataclass(frozen=True)
class Description:
    """A rewritten description.

    Attributes:
        call: A call that worked, in its usual form, with what it is for.
        arguments: ``(line, tool)``: where an argument's value comes from, and the tool that shows it, if one does.
        errors: How it fails.
        returns: What it brings; empty if nobody knows.
    """

    call: str
    arguments: tuple[tuple[str, str], ...]
    errors: tuple[str, ...]
    returns: str

    def lines(self) -> Iterator[str]:
        """All of it, one statement a line."""
        yield self.call
        yield from self.errors
        yield from (line for line, _ in self.arguments)
        yield self.returns


class Draft:
    """Rewrites descriptions."""

    name: ClassVar[str] = "draft"

    def __init__(self, descriptions: Mapping[str, Description], toolbox: Toolbox, writer: Writer) -> None:
        self._descriptions = descriptions
        self._toolbox = toolbox
        self._writer = writer

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Rewrites the descriptions of all tools that were called."""
        runs = read(trajectories, setting.effects)
        toolbox = Toolbox(runs, encoder_of(setting))
        errors = _errors(runs)
        descriptions = {name: _rewritten(name, toolbox, errors.get(name, ())) for name in toolbox.names}
        return cls(descriptions, toolbox, Writer.of(runs))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The tool list with rewritten descriptions, and the lines on the likely tools."""
        moment = Moment.of(messages, tools)
        rewritten = None if tools is None else tuple(self._rewrite(plain(tool)) for tool in tools)
        if moment.empty:
            return Advice(tools=rewritten)
        likely = self._toolbox.likely(moment, _TOOLS)
        known = [self._descriptions[name] for name in likely]
        lines = [line for one in known for line in (one.call, *one.errors)]
        lines += [line for one in known for line, source in one.arguments if source not in moment.done]
        lines += [one.returns for one in known]
        return Advice(self._writer.advice(lines, budget).text, rewritten)

    def _rewrite(self, tool: Any) -> Any:
        """A copy of a tool, described anew if it is known."""
        changed: Any = copy.deepcopy(tool)
        body = changed.get("function", changed) if isinstance(changed, dict) else None
        if isinstance(body, dict) and body.get("name") in self._descriptions:
            lines = self._descriptions[body["name"]].lines()
            body["description"] = "\n".join(self._writer.clean(line) for line in lines if line)
        return changed

    def size(self) -> int:
        """Bytes of the descriptions and the tools' vectors."""
        texts = {name: list(description.lines()) for name, description in self._descriptions.items()}
        return len(orjson.dumps(texts)) + self._toolbox.vectors.nbytes


def _rewritten(name: str, toolbox: Toolbox, errors: Sequence[str]) -> Description:
    steps = toolbox.steps[name]
    good = [step for step in steps if step.good]
    spec = toolbox.specs.get(name)
    purpose = first_sentence(spec.description) if spec else ""
    forms = Counter(step.pattern for step in good or steps)
    call = min(forms.items(), key=lambda item: (-item[1], item[0]))[0]
    fields = _usual_fields(good)
    said = f"{call}: {purpose}" if purpose else call
    returns = f"{name} returns {', '.join(fields)}" if fields else ""
    return Description(said, tuple(_arguments(name, good)), tuple(errors), returns)


def _usual_fields(good: Sequence[Step]) -> list[str]:
    brought = [step.fields for step in good if step.fields and step.fields != ("text",)]
    counts = Counter(field for fields in brought for field in fields)
    return sorted(field for field, count in counts.items() if count >= _MOSTLY * len(brought))[:_MAX_FIELDS]


def _arguments(name: str, good: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Where the values come from, one line an argument: what the user said, or another tool's result."""
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for step in good:
        for argument, source in step.sources:
            places[argument.replace("[]", "")]["" if source == "request" else source.split(":", 1)[0]] += 1
    for argument, counts in sorted(places.items()):
        source, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
        if source == "nowhere" or count < _MOSTLY * counts.total():
            continue
        if source:
            yield f"call {source} to get the {argument} of {name}", source
        else:
            yield f"{name}: {argument} is what the user says", ""


def _errors(runs: Sequence[Recorded]) -> dict[str, list[str]]:
    """The most frequent errors of each tool, with what has resolved them most often."""
    times: dict[str, Counter[str]] = defaultdict(Counter)
    fixes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for run in runs:
        known = {position: fix for position, fix, _ in run.fixes}
        for position, step in enumerate(run.steps):
            if step.failed:
                times[step.tool][step.failed] += 1
            if step.failed and position in known:
                fixes[step.tool, step.failed][fix_words(step.tool, known[position])] += 1
    found: dict[str, list[str]] = {}
    for tool, counts in times.items():
        usual = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_ERRORS]
        for message, _ in usual:
            best = min(fixes[tool, message].items(), key=lambda item: (-item[1], item[0]), default=("", 0))[0]
            found.setdefault(tool, []).append(failure_line(tool, message, best))
    return found
