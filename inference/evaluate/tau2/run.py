"""What a run leaves behind: its messages, and the log that counting needs and no memory ever sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from inference.evaluate.tau2.conversation import Conversation
from inference.evaluate.tau2.plan import Call
from inference.evaluate.tau2.settings import ErrorKind


class Result(StrEnum):
    """What became of a call."""

    DONE = "done"
    REFUSED = "refused"  # by the environment
    HELD = "held"  # by the gate, to the end
    ENDED = "ended"  # the gate handed the run over


@dataclass
class FaultLog:
    """One injected error and what became of it; kept beside the run, never in it.

    Attributes:
        step: Index of the gold write it was made at.
        call: The erroneous call; for a repeated failed call, the one that is repeated.
        gold: The call that was due.
        wrong: Names of the arguments that are wrong in it.
        message: Index of the message of its first appearance in the environment; None if the gate kept it away.
        reached: It reached the environment as it was (a repeated call: once more after its refusal).
        accepted: The environment took it.
        mended: The gold call was made in the end.
    """

    kind: ErrorKind
    step: int
    call: Call
    gold: Call
    wrong: tuple[str, ...]
    message: int | None = None
    reached: bool = False
    accepted: bool = False
    mended: bool = False


@dataclass
class WriteLog:
    """One gold write and what became of it.

    Attributes:
        faulty: An error was injected at it.
        proposed: The right call was put forward, at once or after correction.
        due: It was right and due: proposed with nothing injected, and the environment would take it.
        revised: Times the gate answered it with anything but Allow.
        made: The right call reached the environment.
    """

    step: int
    faulty: bool
    proposed: bool = False
    due: bool = False
    revised: int = 0
    made: bool = False


@dataclass
class Run:
    """A finished run.

    Attributes:
        latencies: Seconds of each gate decision, with whether the call was a write.
        reads_held: Calls that write nothing and that the gate did not let through.
        right_writes: Writes that the environment took and that the task's solution has, each as often as it has it.
        wrong_writes: All other writes that it took: the harm done.
        stuck: Something was held back to the end, or the run was handed over although its solution does not say so.
        guards: For each check of the gate, decisions that it held: on erroneous calls, and on right ones.
    """

    task_id: str
    trial: int
    conversation: Conversation
    faults: list[FaultLog] = field(default_factory=list)
    writes: list[WriteLog] = field(default_factory=list)
    latencies: list[tuple[float, bool]] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    reads_held: int = 0
    right_writes: int = 0
    wrong_writes: int = 0
    stuck: bool = False
    guards: dict[str, list[int]] = field(default_factory=dict)

    def count_guard(self, check: str, *, right: bool) -> None:
        """Notes that a check held a call."""
        self.guards.setdefault(check, [0, 0])[right] += 1
