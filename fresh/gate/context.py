"""What every check of the gate is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fresh.gate.settings import GateSettings
from fresh.knowledge import Rule, ToolIndex, ToolMemory
from fresh.live import Live
from fresh.mining.patterns import in_words
from fresh.traces.tools import infer_effect, is_handover
from graph_schema.trajectory import Effect, ToolCall, ToolSpec


@dataclass(frozen=True)
class Context:
    """One call, the history before it, and what memory and caller say of the tool.

    Attributes:
        specs: The caller's tools by name; None when the caller gave no list.
        rules: Conditions of the tool that are enforced.
        revisions: Fruitless revisions of this step: those that the caller counted, or the refusals in the history.
    """

    call: ToolCall
    live: Live
    specs: Mapping[str, ToolSpec] | None
    index: ToolIndex
    settings: GateSettings
    rules: tuple[Rule, ...]
    revisions: int

    @cached_property
    def tool(self) -> ToolMemory | None:
        """What memory knows of the tool."""
        return self.index.get(self.call.tool)

    @cached_property
    def spec(self) -> ToolSpec | None:
        """What the caller says of the tool."""
        return (self.specs or {}).get(self.call.tool)

    @property
    def known_rules(self) -> tuple[Rule, ...]:
        """Conditions that memory knows of the tool, enforced or not."""
        return self.tool.rules if self.tool is not None else ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The call's arguments; empty where they could not be read."""
        return self.call.arguments or {}

    @cached_property
    def effect(self) -> Effect:
        """What the tool does: the caller's word, then the memory's, then the verb of its name."""
        return self.effect_of(self.call.tool)

    def effect_of(self, tool: str) -> Effect:
        """As `effect`, of any tool."""
        effect = self._effects.get(tool)
        if effect is None:
            effect = self._effects[tool] = effect_of(tool, self.index, self.specs)
        return effect

    @cached_property
    def _effects(self) -> dict[str, Effect]:
        return {}

    def parameters_of(self, tool: str) -> Mapping[str, Any] | None:
        """The JSON Schema of a tool's arguments, if the caller gave it."""
        spec = (self.specs or {}).get(tool)
        return spec.parameters if spec is not None and spec.parameters else None

    def offers(self, tool: str) -> bool:
        """Whether the agent may call a tool now, as far as the caller said."""
        return tool in self.specs if self.specs is not None else tool in self.index

    @cached_property
    def tools_in_words(self) -> frozenset[str]:
        """Names of the caller's and the memory's tools as a text would speak of them."""
        return self.index.names_in_words | set(map(in_words, self.specs or ()))

    @cached_property
    def hands_over(self) -> bool:
        """Whether the call itself hands the case to a person; no budget stops that."""
        description = self.spec.description[:200] if self.spec is not None else ""
        return self.effect is Effect.OTHER and is_handover(self.call.tool, description)

    @cached_property
    def handover(self) -> str | None:
        """A tool that hands the case to a person, if the agent has one."""
        if self.specs is not None:
            options = {name: spec.description[:200] for name, spec in self.specs.items()}
        else:
            options = dict.fromkeys(self.index.names, "")
        for name, description in options.items():
            if is_handover(name, description) and self.effect_of(name) is Effect.OTHER:
                return name
        return None


def effect_of(tool: str, index: ToolIndex, specs: Mapping[str, ToolSpec] | None) -> Effect:
    """What a tool does: the caller's word, then the memory's, then the verb of its name."""
    spec = (specs or {}).get(tool)
    if spec is not None and spec.effect is not None:
        return spec.effect
    return index.effect(tool) or infer_effect(tool)
