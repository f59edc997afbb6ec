"""What every memory can do: be built from recorded runs, and advise on the next step within a token budget.

A memory's advice is text, whatever made it: the comparison reads tools, warnings and calls out of the text alone, so
that no memory is judged by anything that its reader would not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from fresh.guidance import estimate_tokens
from graph_schema.trajectory import Effect, Trajectory

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder

Fitter = Callable[..., Any]
"""`training.fit.fit_reranker`, handed in: nothing here may import the trainer."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What a memory says before one step.

    Attributes:
        text: What the executor reads; empty when the memory has nothing to say.
        tools: The tool list with what memory knows written into it, for a memory that works through the tools'
            descriptions; None for all others.
    """

    text: str = ""
    tools: tuple[Mapping[str, Any], ...] | None = None

    @property
    def tokens(self) -> int:
        """Estimated length of `text`."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class Setting:
    """What a memory may use when it is built, besides the runs.

    Attributes:
        encoder: Text encoder shared by all memories; None for each memory's default.
        effects: What the caller says of tools.
        fitter: Trains a reranker; a memory that has to be trained refuses to be built without one.
        training: Options of the fitter: ``model``, ``data``, ``max_epochs``.
        seed: Of everything random.
        subject_arguments: Arguments that say whose request it is: a memory that validates on some of its runs must not
            split a subject; see `fresh.splits.task_groups`.
    """

    encoder: Encoder | None = None
    effects: Mapping[str, Effect] = field(default_factory=dict)
    fitter: Fitter | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    subject_arguments: tuple[str, ...] = ()


class Memory(Protocol):
    """A memory of recorded runs.

    Attributes:
        name: What tables call it.
    """

    name: ClassVar[str]

    @classmethod
    def build(cls, trajectories: Sequence[Trajectory], setting: Setting = Setting()) -> Self:
        """Makes the memory from recorded runs.

        Raises:
            MissingExtraError: A package that it needs is not installed.
            ConfigError: It cannot be made from these runs or with this setting.
        """
        ...

    def guide(self, messages: Sequence[Any], tools: Sequence[Any] | None, budget: int) -> Advice:
        """Advice for the next step.

        Args:
            messages: The chat so far, OpenAI-style.
            tools: The tools the agent may call; None when unknown.
            budget: Most tokens of the text, by `fresh.guidance.estimate_tokens`.
        """
        ...

    def size(self) -> int:
        """Bytes the memory takes on disk."""
        ...
