"""Recorded runs in words: the one form in which the memories of this package keep them.

Every value is replaced by a placeholder on the way in, as the miner does it, so no memory can show a customer's name
or an old order's number, whatever it recalls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.history import RunIndex
from fresh.mining.credit import Credit
from fresh.mining.evidence import CallEvidence, run_evidence
from fresh.mining.miner import EffectResolver
from fresh.mining.patterns import action_pattern, request_text
from fresh.mining.repairs import Fix
from fresh.values import is_data_key
from graph_schema.trajectory import Effect, Outcome, Role, Trajectory
from inference.baselines.kept import Kept

_TOOL_NAME = re.compile(r"[^\s<>\"'`(),;]{1,128}")
_NO_TOOL = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a run.

    Attributes:
        turn: The turn it was made in.
        tool: Its tool.
        pattern: The call with placeholders for values, such as ``get_order(order_id=<ORDER_ID>)``.
        effect: What the tool does to the world.
        failed: The error it gave, values replaced; empty if it gave none.
        credit: What the call turned out to be; see `fresh.mining.credit`.
        fields: Names of the fields that its result brought.
        sources: ``(argument, where its value came from)`` of a verified call: ``request`` or ``tool:path``.
    """

    turn: int
    tool: str
    pattern: str
    effect: Effect
    failed: str
    credit: Credit
    fields: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        """Whether it is worth doing again: verified, neither failed nor a repetition."""
        return self.credit.sign > 0


class Recorded:
    """A run in words.

    Args:
        run: The run.
        effect_of: What each tool does.
    """

    def __init__(self, run: Trajectory, effect_of: Callable[[str], Effect]) -> None:
        evidence = run_evidence(run, effect_of)
        self.run = run
        self.request: str = evidence.request
        self.fixes: tuple[tuple[int, Fix, int], ...] = evidence.fixes
        self.steps: tuple[Step, ...] = tuple(
            _step(turn, found) for (turn, _), found in zip(run.calls(), evidence.calls, strict=True)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.run.id!r}, {self.outcome}, steps={len(self.steps)})"

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return self.run.feedback.outcome

    @property
    def succeeded(self) -> bool:
        """Whether it is known to have succeeded."""
        return self.outcome is Outcome.SUCCESS

    @cached_property
    def good_steps(self) -> tuple[Step, ...]:
        """The steps that were worth it, in order."""
        return tuple(step for step in self.steps if step.good)

    @cached_property
    def user_words(self) -> dict[int, str]:
        """What the user said in each turn after the first, values replaced."""
        shown = [paths for _, _, paths in RunIndex(self.run.turns).shown]
        calls = [call for _, call in self.run.calls()]
        said = [i for i, turn in enumerate(self.run.turns) if turn.role is Role.USER and turn.text]
        return {i: request_text(self.run.turns[i].text, calls, shown) for i in said[1:]}

    def plain(self) -> dict[str, Any]:
        """What a file of this run would hold."""
        steps = [[step.pattern, step.failed, list(step.fields)] for step in self.steps]
        return {"request": self.request, "outcome": str(self.outcome), "steps": steps}


def _step(turn: int, found: CallEvidence) -> Step:
    """A call in words. Names can be made up by a model too: what cannot be one is not shown."""
    tool, pattern = found.tool, found.pattern
    if not _TOOL_NAME.fullmatch(tool):
        tool = pattern = _NO_TOOL
    elif any(is_data_key(name) for name in found.arguments or ()):
        pattern = action_pattern(tool, {name: None for name in found.arguments or () if not is_data_key(name)})
    return Step(
        turn=turn,
        tool=tool,
        pattern=pattern,
        effect=found.effect,
        failed=found.error or "",
        credit=found.credit,
        fields=found.fields or (),
        sources=found.origins,
    )


_READ: Kept[list[Recorded]] = Kept(4)


def read(trajectories: Iterable[Trajectory], effects: Mapping[str, Effect] | None = None) -> list[Recorded]:
    """The runs in words, each once and in order of content, so that the order of files changes nothing.

    Args:
        trajectories: The runs.
        effects: What the caller says of tools.
    """
    runs = sorted({run.id: run for run in trajectories}.values(), key=lambda run: run.id)
    key = (tuple(map(id, runs)), tuple(sorted((effects or {}).items())))  # what is kept holds the runs themselves
    resolver = EffectResolver(effects)
    return _READ.get(key, lambda: [_recorded(run, resolver) for run in runs])


def _recorded(run: Trajectory, resolver: EffectResolver) -> Recorded:
    labelled = resolver.for_run(run)
    return Recorded(run, lambda tool: resolver.effect(tool, labelled))


def to_come(steps: Sequence[Step], done: Iterable[str], offered: frozenset[str] | None = None) -> list[Step]:
    """The steps of a chain that are still to be taken.

    Each call already made stands for the first step of its tool; what was made beyond that changes nothing.

    Args:
        steps: The chain.
        done: Tools of the calls that went through, with repetitions.
        offered: Tools the agent may call; None when unknown.
    """
    made = Counter(done)
    left = []
    for step in steps:
        if made[step.tool]:
            made[step.tool] -= 1
        elif offered is None or step.tool in offered:
            left.append(step)
    return left
