"""ExpG: guidance on each tool, distilled from scored experiences, in the tool list and as lines on the likely tools.

Acquisition, distillation and reuse are this project's own (`fresh.expg`). In the original the guidance stands in the
tools' descriptions and schemas, and so it does in the tool list given back; the text is the same guidance for the tools
that the moment is most about, since ExpG knows tools and no order of calls.

Source: arXiv 2608.03403.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import orjson

from fresh.expg.distillation import distil
from fresh.expg.evaluate import RuleEvaluator
from fresh.expg.guidance import ToolGuidance
from fresh.expg.reuse import apply_guidance
from fresh.live import plain
from graph_schema.trajectory import Trajectory
from inference.baselines.base import Advice, Setting
from inference.baselines.recall import Moment, encoder_of
from inference.baselines.recorded import read
from inference.baselines.toolbox import Toolbox
from inference.baselines.wording import Writer

_TOOLS = 3
"""Tools of which the lines are shown."""
_PATTERNS = 2
_COUNTS = re.compile(r"\s*\(\d+ of \d+ calls?[^)]*\)")
"""The counts behind a statement: worth their tokens in a report, not in a prompt."""
_ANSWERED = re.compile(r'^the tool answered "(?:Error: )?')


class ExpG:
    """Gives the guidance of ExpG."""

    name: ClassVar[str] = "expg"

    def __init__(self, guidance: Mapping[str, ToolGuidance], toolbox: Toolbox, writer: Writer) -> None:
        self._guidance = guidance
        self._toolbox = toolbox
        self._writer = writer

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Scores the calls of all runs and distils them."""
        runs = read(trajectories, setting.effects)
        guidance = distil(RuleEvaluator().evaluate([run.run for run in runs])).guidance
        return cls(guidance, Toolbox(runs, encoder_of(setting)), Writer.of(runs))

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """The tool list with guidance in it, and the lines on the likely tools."""
        moment = Moment.of(messages, tools)
        listed = None if tools is None else tuple(apply_guidance([plain(tool) for tool in tools], self._guidance))
        if moment.empty:
            return Advice(tools=listed)
        likely = self._toolbox.likely(moment, _TOOLS)
        known = [self._guidance[name] for name in likely if name in self._guidance]
        lines = [line for one in known for line in (*_worked(one), *_failed(one))]
        lines += [line for one in known for line in _practices(one)]
        return Advice(self._writer.advice(lines, budget).text, listed)

    def size(self) -> int:
        """Bytes of the guidance and the tools' vectors."""
        stored = {name: found.model_dump(mode="json") for name, found in self._guidance.items()}
        return len(orjson.dumps(stored)) + self._toolbox.vectors.nbytes


def _worked(guidance: ToolGuidance) -> Iterator[str]:
    yield from (_COUNTS.sub("", f"Worked: {pattern}") for pattern in guidance.advice.success_patterns[:_PATTERNS])


def _failed(guidance: ToolGuidance) -> Iterator[str]:
    """Error answers in the words that all memories use; faults of the calls as things to avoid."""
    for issue in guidance.advice.common_issues:
        said = _COUNTS.sub("", issue)
        quoted = _ANSWERED.sub('fails with "', said)
        if quoted != said:
            yield f"{guidance.tool} {quoted}"
        elif not said.startswith("the tool answered"):  # that it fails somehow is no advice
            yield f"Avoid: {guidance.tool} where {said}"


def _practices(guidance: ToolGuidance) -> Iterator[str]:
    for sentence in guidance.advice.best_practices.split(". "):
        if sentence:
            yield f"{guidance.tool}: {_COUNTS.sub('', sentence).rstrip('.')}"
