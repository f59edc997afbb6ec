"""A frozen memory in front of an agent: guidance for its next step, and a gate for its calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fresh.frozen import FrozenFiles, read_frozen
from fresh.gate import AuditLog, Decision, Gate, GateSettings, Mode, Policy, load_policy
from fresh.gate.policy import parse_policy
from fresh.guidance import Guidance, GuidanceSettings, Guide, HeuristicRanker, Ranker
from fresh.knowledge import ToolIndex
from fresh.live import LiveParser, live_call, plain
from graph_schema.errors import ConfigError, FrozenMemoryError, MemoryFileError
from graph_schema.graph import ExperienceGraph, Node
from graph_schema.trajectory import Effect, ToolCall

if TYPE_CHECKING:
    from fresh.retrieval.bm25 import BM25Index
    from fresh.retrieval.encoder import Encoder


def load(
    path: str | Path,
    *,
    device: str = "cpu",
    gate: GateSettings | None = None,
    guidance: GuidanceSettings | None = None,
    encoder: Encoder | None = None,
    policy: Policy | str | Path | None = None,
    audit: AuditLog | str | Path | None = None,
) -> FrozenMemory:
    """Loads a frozen memory, or a mined graph, checking every file's hash.

    Nothing in it is unpickled. The text encoder and the reranker are loaded when guidance is first asked for; the gate
    needs neither.

    Args:
        path: The folder.
        device: Where the reranker runs, as PyTorch names devices.
        gate: Settings of the gate; the memory's own, then the defaults, when None.
        guidance: Settings of the guidance; likewise.
        encoder: Text encoder for the reranker; the one it was trained with when None.
        policy: Rules written by hand, or their file; those in the memory's own manifest, if any, when None.
        audit: Where the gate records its decisions, or the file for it.

    Raises:
        MemoryFileError: The folder is missing, damaged or newer than this version.
        SchemaError: The graph, or the reranker on it, breaks the schema.
        ConfigError: A rule of the policy is wrong.
    """
    files = read_frozen(path)
    return FrozenMemory(files, device=device, gate=gate, guidance=guidance, encoder=encoder, policy=policy, audit=audit)


class FrozenMemory:
    """Guides and gates an agent from a memory that does not change.

    Args:
        files: The memory's folder, read and checked.
        device: Where the reranker runs.
        gate: Settings of the gate.
        guidance: Settings of the guidance.
        encoder: Text encoder for the reranker.
        policy: Rules written by hand, or their file.
        audit: Where the gate records its decisions, or the file for it.
    """

    def __init__(
        self,
        files: FrozenFiles,
        *,
        device: str = "cpu",
        gate: GateSettings | None = None,
        guidance: GuidanceSettings | None = None,
        encoder: Encoder | None = None,
        policy: Policy | str | Path | None = None,
        audit: AuditLog | str | Path | None = None,
    ) -> None:
        own = files.manifest
        settings = gate or GateSettings(**own.get("gate_settings", {}))
        log = AuditLog(audit) if isinstance(audit, str | Path) else audit
        values = {
            "_files": files,
            "_device": device,
            "_encoder": encoder,
            "_parser": LiveParser(),
            "_guidance": guidance or GuidanceSettings(**own.get("guidance_settings", {})),
            "judge": Gate(ToolIndex(files.graph), settings, policy=_policy(files, policy), audit=log),
        }
        self.__dict__.update(values)

    judge: Gate
    """The gate itself, for callers that hold parsed histories."""
    _files: FrozenFiles
    _device: str
    _encoder: Encoder | None
    _parser: LiveParser
    _guidance: GuidanceSettings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._files.path)!r}, {self.graph!r})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenMemoryError(
            f"{self._files.path} is frozen: its {name} cannot be set; load it again with other settings"
        )

    @property
    def graph(self) -> ExperienceGraph:
        """The experience graph."""
        return self._files.graph

    @property
    def manifest(self) -> dict[str, Any]:
        """What the memory says of itself: counts, settings, metrics."""
        return dict(self._files.manifest)

    @property
    def card(self) -> str:
        """What a person should know of the memory, in Markdown."""
        return self._files.card()

    # -- at each step ---------------------------------------------------------------------------------------------

    def guide(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        budget: int | None = None,
        provenance: bool = False,
    ) -> Guidance:
        """Guidance for the next step, made anew from what the messages already hold.

        Args:
            messages: The chat so far, OpenAI-style.
            tools: The tools the agent may call, as OpenAI, MCP or Anthropic describe them; None when unknown.
            budget: Most tokens of the block; the settings' when None.
            provenance: Name for each line the runs it comes from.
        """
        live, specs = self._parser.history(messages), self._parser.tools(tools)
        return self._guide.guide(live, specs, budget=budget, provenance=provenance)

    def gate(
        self,
        tool_call: Any,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        revisions: int = 0,
        provenance: bool = False,
        mode: Mode | None = None,
    ) -> Decision:
        """Judges a call before it is made.

        Args:
            tool_call: An OpenAI tool call (dictionary or SDK object), an Anthropic ``tool_use`` block, or
                ``(name, arguments)``.
            messages: The chat before the call; the assistant's message that makes it may be the last one.
            tools: The tools the agent may call.
            revisions: How often this step has been revised already; bounds the revising.
            provenance: Name in each finding and guard the runs it comes from.
            mode: ``enforce``, ``advise`` or ``off``, in place of the settings' mode.
        """
        live, specs = self._parser.history(messages), self._parser.tools(tools)
        return self.judge.decide(
            live_call(tool_call), live, specs, revisions=revisions, provenance=provenance, mode=mode
        )

    def reads(self, tool: str, tools: Sequence[Any] | None = None) -> bool:
        """Whether a tool only reads: the caller's word, then the memory's, then the verb of its name."""
        return self.judge.effect(tool, self._parser.tools(tools)) is Effect.READ

    def settle(
        self,
        tool_call: Any,
        messages: Sequence[Any],
        revise: Callable[[ToolCall, Decision], Any],
        tools: Sequence[Any] | None = None,
        *,
        mode: Mode | None = None,
    ) -> Decision:
        """Judges a call and each revision of it until one is allowed, blocked or handed over; bounded.

        Args:
            tool_call: The call as first proposed.
            messages: The chat before the call.
            revise: Makes the next proposal from the last one and its decision; None gives up.
            tools: The tools the agent may call.
            mode: ``enforce``, ``advise`` or ``off``, in place of the settings' mode.
        """
        live, specs = self._parser.history(messages), self._parser.tools(tools)

        def proposed(call: ToolCall, decision: Decision) -> ToolCall | None:
            answer = revise(call, decision)
            return None if answer is None else live_call(answer)

        return self.judge.settle(live_call(tool_call), live, proposed, specs, mode=mode)

    def retrieve(
        self, messages: Sequence[Any], tools: Sequence[Any] | None = None, *, k: int = 10
    ) -> list[tuple[Node, float]]:
        """The nodes ranked highest for this moment, with their scores."""
        import numpy as np

        from fresh.retrieval.query import make_query

        live, specs = self._parser.history(messages), self._parser.tools(tools)
        scores = self.ranker.scores(make_query(live.history, specs))
        best = np.argsort(-scores, kind="stable")[: max(0, k)]
        return [(self.graph.node(int(i)), float(scores[i])) for i in best if scores[i] > 0]

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A copy of a tool list with what memory knows of each tool written into it.

        Raises:
            MemoryFileError: The stored guidance cannot be read.
            ConfigError: A tool is not described by an object.
        """
        from pydantic import ValidationError

        from fresh.expg.guidance import ToolGuidance
        from fresh.expg.reuse import apply_guidance

        stored = self._files.tool_guidance()
        try:
            guidance = {name: ToolGuidance.model_validate(value) for name, value in stored.items()}
        except ValidationError as error:
            raise MemoryFileError(
                f"{self._files.path}: the guidance for tool lists is not of this version "
                f"({error.error_count()} fields differ): export the memory again"
            ) from None
        listed = [plain(tool) for tool in tools]
        for position, tool in enumerate(listed):
            if not isinstance(tool, Mapping):
                raise ConfigError(
                    f"tool {position} is {type(tool).__name__}, not an object as OpenAI, MCP or Anthropic describe it"
                )
        return apply_guidance([dict(tool) for tool in listed], guidance)

    def evolve(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuses: a frozen memory does not learn.

        Raises:
            FrozenMemoryError: Always.
        """
        raise FrozenMemoryError(
            f"{self._files.path} is frozen and does not change: mine the new runs, merge the graphs and export again"
        )

    # -- parts loaded on first use --------------------------------------------------------------------------------

    @cached_property
    def bm25(self) -> BM25Index:
        """Index over the node texts."""
        return self._files.bm25()

    @cached_property
    def ranker(self) -> Ranker:
        """The trained reranker if the memory has one, else BM25 with the success prior."""
        reranker = self._files.reranker(self._device)
        if reranker is None:
            return HeuristicRanker(self.graph, self.bm25)
        from fresh.retrieval.retriever import Retriever

        return Retriever(self.graph, reranker, self._encoder, self.bm25, device=self._device)

    @cached_property
    def _guide(self) -> Guide:
        return Guide(self.judge, self.ranker, self._guidance)


def _policy(files: FrozenFiles, policy: Policy | str | Path | None) -> Policy:
    """The caller's policy, or the memory's own; warns of rules in a file that wait for a person."""
    if isinstance(policy, Policy):
        return policy
    own = files.manifest.get("policy", [])
    found = parse_policy(own, f"the policy of {files.path}") if policy is None else load_policy(policy)
    if found.warning():
        warnings.warn(found.warning(), stacklevel=4)
    return found
