"""Runs to graph: evidence from each run, reduced in an order that does not depend on how the runs arrived."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fresh.expg.evaluate import RuleEvaluator
from fresh.mining.calibration import Trust, calibrate
from fresh.mining.evidence import CallEvidence, RunEvidence, observation_text, run_evidence
from fresh.mining.patterns import in_words
from fresh.mining.preconditions import MinedCondition, Thresholds, mine_preconditions
from fresh.mining.repairs import Fix, RepairKind, changed_arguments
from fresh.traces.tools import infer_effect
from graph_schema.builder import GraphBuilder
from graph_schema.graph import ExperienceGraph
from graph_schema.trajectory import Effect, Outcome, ToolSpec, Trajectory
from graph_schema.types import NodeType, Relation

if TYPE_CHECKING:
    from fresh.retrieval.encoder import Encoder

_MAX_SOURCES = 4
_MAX_CHOICES = 8
_MAX_LOOKED_UP_CHOICES = 3
_CHOICE_COVERAGE = 0.8
_MAX_SEQUENCES = 3


@dataclass(frozen=True)
class MiningSettings:
    """How a graph is mined; stored with it.

    Attributes:
        thresholds: When a precondition is kept.
        choice_tasks: A value is a choice, and may be shown, only if at least this many tasks used it.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)
    choice_tasks: int = 3


class EffectResolver:
    """Which tools write: the caller's word first, then the trace's, then the verb of the name."""

    def __init__(self, given: Mapping[str, Effect] | None = None) -> None:
        self.given = dict(given or {})
        self._evaluator = RuleEvaluator()

    def for_run(self, trajectory: Trajectory) -> Mapping[str, Effect]:
        """Effects of the tools that a run's own tool list labels."""
        return {spec.name: spec.effect for spec in trajectory.tools or () if spec.effect is not None}

    def effect(self, tool: str, labelled: Mapping[str, Effect]) -> Effect:
        """The effect of one tool."""
        return self.given.get(tool) or labelled.get(tool) or infer_effect(tool)

    def evidence(self, trajectory: Trajectory) -> RunEvidence:
        """Takes out a run's evidence with the effects that hold for it."""
        labelled = self.for_run(trajectory)
        return run_evidence(trajectory, lambda tool: self.effect(tool, labelled), self._evaluator)


def mine(
    trajectories: Iterable[Trajectory],
    effects: Mapping[str, Effect] | None = None,
    specs: Mapping[str, ToolSpec] | None = None,
    settings: MiningSettings | None = None,
    encoder: Encoder | None = None,
) -> ExperienceGraph:
    """Mines runs into an experience graph with node features.

    Args:
        trajectories: Runs, in any order; each is reduced to its evidence at once, so they may be streamed.
        effects: What the caller says of tools; overrides the trace and the name.
        specs: What the caller says tools are for and take; overrides the trace.
        settings: Thresholds.
        encoder: Where given, node texts are embedded into the feature ``text``.
    """
    resolver = EffectResolver(effects)
    evidence = [resolver.evidence(trajectory) for trajectory in trajectories]
    return reduce_evidence(evidence, resolver, specs, settings or MiningSettings(), encoder)


def reduce_evidence(
    evidence: Iterable[RunEvidence],
    resolver: EffectResolver,
    specs: Mapping[str, ToolSpec] | None,
    settings: MiningSettings,
    encoder: Encoder | None = None,
) -> ExperienceGraph:
    """Reduces the evidence of many runs to one graph."""
    from fresh.mining.features import add_features

    runs = sorted({item.run.id: item for item in evidence}.values(), key=lambda item: item.run.id)
    reducer = _Reducer(runs, resolver, specs or {}, settings)
    return add_features(reducer.graph(), runs, encoder)


class _Reducer:
    """Adds all of the evidence to one builder."""

    def __init__(
        self,
        runs: list[RunEvidence],
        resolver: EffectResolver,
        specs: Mapping[str, ToolSpec],
        settings: MiningSettings,
    ) -> None:
        self.runs = runs
        self.settings = settings
        self.builder = GraphBuilder()
        self.specs = _all_specs(runs, specs)
        self.effects = _effects(runs, resolver)
        self.sources = _effect_sources(runs, resolver)
        self.handles = {item.run.id: self.builder.add_run(item.run) for item in runs}
        self.action_data = _action_data(runs, self.effects, settings.choice_tasks)
        self.sequences = _sequences(runs)
        self.solutions = {item.run.task_key: list(item.solution) for item in runs if item.solution is not None}
        self._tools: dict[str, int] = {}
        self._actions: dict[tuple[str, str], int] = {}

    def graph(self) -> ExperienceGraph:
        for item in self.runs:
            self._add_run(item)
        for fix in _fixes_across_runs(self.runs):
            self._add_fix(*fix)
        reads = frozenset(tool for tool, effect in self.effects.items() if effect is Effect.READ)
        uses = [use for item in self.runs for use in item.uses]
        mined = mine_preconditions(uses, self.settings.thresholds, reads)
        for condition, trust in zip(mined, calibrate(uses, mined, self.settings.thresholds, reads), strict=True):
            self._add_precondition(condition, trust)
        return self.builder.build(
            settings={
                "mining": asdict(self.settings),
                "effects": {tool: str(effect) for tool, effect in sorted(self.effects.items())},
                "effect_sources": dict(sorted(self.sources.items())),
                "runs": len(self.runs),
                "tasks": len({item.run.task_key for item in self.runs}),
                "outcomes": dict(sorted(Counter(str(item.outcome) for item in self.runs).items())),
            }
        )

    # -- nodes -------------------------------------------------------------------------------------------------

    def tool(self, name: str) -> int:
        if name not in self._tools:
            self._tools[name] = self._make_tool(name)
        return self._tools[name]

    def _make_tool(self, name: str) -> int:
        spec = self.specs.get(name, ToolSpec(name=name))
        purpose = spec.description.strip().split("\n", 1)[0][:160]
        parameters = sorted(spec.parameters.get("properties", {})) or self.action_data.parameters.get(name, [])
        effect = self.effects[name]
        text = f"{in_words(name)}: {purpose} ({effect}) {' '.join(in_words(p) for p in parameters)}".strip()
        data = {"effect": str(effect), "purpose": purpose, "parameters": parameters}
        return self.builder.add_node(NodeType.TOOL, name, text=text, tool=name, data=data)

    def action(self, tool: str, pattern: str) -> int:
        if (tool, pattern) not in self._actions:
            self._actions[tool, pattern] = self._make_action(tool, pattern)
        return self._actions[tool, pattern]

    def _make_action(self, tool: str, pattern: str) -> int:
        inside = pattern[len(tool) + 1 : -1]
        names = [in_words(part.split("=", 1)[0]) for part in inside.split(", ") if part]
        text = f"{in_words(tool)} with {', '.join(names)}" if names else in_words(tool)
        purpose = self.specs[tool].description.split("\n", 1)[0][:160] if tool in self.specs else ""
        return self.builder.add_node(
            NodeType.ACTION,
            pattern,
            text=f"{text}. {purpose}".strip(". "),
            tool=tool,
            data=self.action_data.of(pattern, self.effects[tool]),
        )

    def error(self, tool: str, message: str) -> int:
        return self.builder.add_node(
            NodeType.ERROR,
            f"{tool}: {message}",
            text=f"{in_words(tool)} fails: {message}",
            tool=tool,
            data={"message": message},
        )

    # -- runs --------------------------------------------------------------------------------------------------

    def _add_run(self, item: RunEvidence) -> None:
        run = self.handles[item.run.id]
        task = self._add_task(item, run)
        actions = []
        for call in item.calls:
            action = self.action(call.tool, call.pattern)
            actions.append(action)
            self._add_call(call, action, run)
            self.builder.add_edge(task, Relation.CONTAINS, action, run)
        if item.outcome is Outcome.SUCCESS:
            self._add_order(item, actions, run)
        for position, fix, worked in item.fixes:
            failed = item.calls[position]
            if failed.error is not None:
                self._add_fix(item.run.id, failed.tool, failed.error, fix, item.calls[worked])

    def _add_task(self, item: RunEvidence, run: int) -> int:
        text = f"{item.run.domain}: {item.request}" if item.run.domain else item.request
        data: dict[str, Any] = {"domain": item.run.domain, "tools": self.sequences.get(item.run.task_key, [])}
        if item.run.task_key in self.solutions:
            data["solution"] = self.solutions[item.run.task_key]
        task = self.builder.add_node(
            NodeType.TASK,
            item.run.task_key,
            text=text,
            data=data,
        )
        success, failure = item.outcome is Outcome.SUCCESS, item.outcome is Outcome.FAILURE
        self.builder.count(task, run, success=success, failure=failure, unknown=not (success or failure))
        return task

    def _add_call(self, call: CallEvidence, action: int, run: int) -> None:
        sign = call.credit.sign
        self.builder.count(action, run, success=sign > 0, failure=sign < 0, unknown=sign == 0)
        tool = self.tool(call.tool)
        self.builder.count(tool, run, success=sign > 0, failure=sign < 0, unknown=sign == 0)
        self.builder.add_edge(action, Relation.USES, tool, run)
        if call.error is not None:
            error = self.error(call.tool, call.error)
            self.builder.count(error, run, failure=1)
            self.builder.add_edge(action, Relation.FAILS_BECAUSE, error, run)
        if call.fields is not None:
            self._add_observation(call, action, run)

    def _add_observation(self, call: CallEvidence, action: int, run: int) -> None:
        fields = call.fields or ()
        observation = self.builder.add_node(
            NodeType.OBSERVATION,
            f"{call.tool}: {', '.join(fields)}",
            text=observation_text(call.tool, fields),
            tool=call.tool,
            data={"fields": list(fields)},
        )
        sign = call.credit.sign
        self.builder.count(observation, run, success=sign > 0, failure=sign < 0, unknown=sign == 0)
        self.builder.add_edge(action, Relation.RETURNS, observation, run)
        if sign > 0:
            self.builder.add_edge(action, Relation.VERIFIED_BY, observation, run)

    def _add_order(self, item: RunEvidence, actions: list[int], run: int) -> None:
        good = [action for action, call in zip(actions, item.calls, strict=True) if call.credit.sign > 0]
        for before, after in itertools.pairwise(good):
            self.builder.add_edge(before, Relation.PRECEDES, after, run)

    def _add_fix(self, run_id: str, tool: str, message: str, fix: Fix, worked: CallEvidence) -> None:
        run = self.handles[run_id]
        error = self.error(tool, message)
        detail = ",".join((*fix.arguments, fix.tool))
        repair = self.builder.add_node(
            NodeType.REPAIR,
            f"{tool}|{message}|{fix.kind}|{detail}",
            text=fix.text(in_words(tool), message),
            tool=tool,
            data={"kind": str(fix.kind), "arguments": list(fix.arguments), "tool": fix.tool, "message": message},
        )
        self.builder.count(repair, run, success=1)
        self.builder.add_edge(error, Relation.FIXED_BY, repair, run)
        self.builder.add_edge(repair, Relation.SUPPORTS, self.action(worked.tool, worked.pattern), run)

    def _add_precondition(self, mined: MinedCondition, trust: Trust) -> None:
        key = f"{mined.tool}|{mined.condition.model_dump_json()}"
        node = self.builder.add_node(
            NodeType.PRECONDITION,
            key,
            text=mined.condition.text(in_words(mined.tool)),
            tool=mined.tool,
            data={
                "condition": mined.condition.model_dump(mode="json"),
                "support": sum(mined.held),
                "confidence": round(mined.confidence, 4),
                "lift": round(mined.lift, 4),
                "necessity": round(mined.necessity, 4),
                "caught": round(mined.caught, 4),
                "score": trust.score,
                "false_block": trust.false_block,
            },
        )
        actions = [self.action(mined.tool, pattern) for pattern in sorted(mined.patterns)]
        for run_id, (held, failed, broken, broken_failed) in sorted(mined.by_run.items()):
            run = self.handles[run_id]
            self.builder.count(
                node, run, success=held, failure=failed, violated_success=broken, violated_failure=broken_failed
            )
            for action in actions:
                self.builder.add_edge(action, Relation.REQUIRES, node, run)
                self.builder.add_edge(node, Relation.GUARDS, action, run)


@dataclass(frozen=True)
class _ActionData:
    """Where the arguments of each pattern come from, over all runs."""

    sources: dict[str, dict[str, Counter[str]]]
    choices: dict[str, dict[str, list[str]]]
    parameters: dict[str, list[str]]

    def of(self, pattern: str, effect: Effect) -> dict[str, Any]:
        arguments: dict[str, dict[str, Any]] = {}
        for name, counts in sorted(self.sources.get(pattern, {}).items()):
            ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            ranked = [entry for i, entry in enumerate(ranked) if i < _MAX_SOURCES or entry[0] == "nowhere"]
            arguments[name] = {"sources": [[source, count] for source, count in ranked]}
        for name, values in sorted(self.choices.get(pattern, {}).items()):
            arguments.setdefault(name, {"sources": []})["choices"] = values
        return {"arguments": arguments, "effect": str(effect)}


def _action_data(runs: list[RunEvidence], effects: Mapping[str, Effect], choice_tasks: int) -> _ActionData:
    sources: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    tasks: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    parameters: dict[str, set[str]] = defaultdict(set)
    for item in runs:
        for call in item.calls:
            parameters[call.tool].update(call.arguments or ())
            for name, origin in call.origins:
                sources[call.pattern][name][origin] += 1
            for name, value in call.choices:
                tasks[call.pattern, name, value].add(item.run.task_key)
    looked_up = {
        (pattern, name)
        for pattern, by_name in sources.items()
        for name, counts in by_name.items()
        if 2 * sum(count for source, count in counts.items() if ":" in source) > sum(counts.values())
    }
    choices = _choices(tasks, choice_tasks, looked_up)
    return _ActionData(sources, choices, {tool: sorted(names) for tool, names in parameters.items()})


def _choices(
    tasks: Mapping[tuple[str, str, str], set[str]], choice_tasks: int, looked_up: set[tuple[str, str]]
) -> dict[str, dict[str, list[str]]]:
    """Values that may be shown: those of arguments whose uses mostly take one of a few values that many tasks share.

    An argument that is mostly looked up must have very few of them: more are data of the cases, such as towns.
    """
    by_argument: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for (pattern, name, value), seen in tasks.items():
        by_argument[pattern, name].append((len(seen), value))
    choices: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for (pattern, name), counts in by_argument.items():
        shared = sorted((entry for entry in counts if entry[0] >= choice_tasks), key=lambda e: (-e[0], e[1]))
        covered = sum(count for count, _ in shared) / sum(count for count, _ in counts)
        most = _MAX_LOOKED_UP_CHOICES if (pattern, name) in looked_up else _MAX_CHOICES
        if shared and covered >= _CHOICE_COVERAGE and len(shared) <= most:
            choices[pattern][name] = [value for _, value in shared]
    return choices


def _sequences(runs: list[RunEvidence]) -> dict[str, list[list[str]]]:
    """Shortest tool sequences of each task's successful runs, verified calls only."""
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for item in runs:
        if item.outcome is Outcome.SUCCESS:
            found[item.run.task_key].add(tuple(call.tool for call in item.calls if call.credit.sign > 0))
    return {
        task: [list(tools) for tools in sorted(sequences, key=lambda t: (len(t), t))[:_MAX_SEQUENCES]]
        for task, sequences in found.items()
    }


def _all_specs(runs: list[RunEvidence], given: Mapping[str, ToolSpec]) -> dict[str, ToolSpec]:
    specs: dict[str, ToolSpec] = {}
    for item in runs:
        for spec in item.tools:
            known = specs.get(spec.name)
            if known is None or len(spec.description) > len(known.description):
                specs[spec.name] = spec
    return specs | dict(given)


def _effects(runs: list[RunEvidence], resolver: EffectResolver) -> dict[str, Effect]:
    votes: dict[str, Counter[Effect]] = defaultdict(Counter)
    for item in runs:
        for call in item.calls:
            votes[call.tool][call.effect] += 1
        for spec in item.tools:
            if spec.name not in votes:
                votes[spec.name][resolver.effect(spec.name, {})] += 0
    return {tool: min(count, key=lambda e: (-count[e], str(e))) for tool, count in votes.items()}


def _effect_sources(runs: list[RunEvidence], resolver: EffectResolver) -> dict[str, str]:
    labelled = {spec.name for item in runs for spec in item.tools if spec.effect is not None}
    used = {call.tool for item in runs for call in item.calls}
    return {
        tool: "given" if tool in resolver.given else "trace" if tool in labelled else "inferred from its name"
        for tool in used
    }


def _fixes_across_runs(runs: list[RunEvidence]) -> list[tuple[str, str, str, Fix, CallEvidence]]:
    """Repairs for errors that their own run never resolved, from the nearest successful run of the same task."""
    worked: dict[tuple[str, str], list[tuple[str, CallEvidence]]] = defaultdict(list)
    for item in runs:
        if item.outcome is Outcome.SUCCESS:
            for call in item.calls:
                if call.credit.sign > 0 and call.arguments is not None:
                    worked[item.run.task_key, call.tool].append((item.run.id, call))
    found = []
    for item in runs:
        resolved = {position for position, _, _ in item.fixes}
        for position, call in enumerate(item.calls):
            if call.error is None or call.arguments is None or position in resolved:
                continue
            options = worked.get((item.run.task_key, call.tool), [])
            ranked = [(changed_arguments(call.arguments, c.arguments), run, c.pattern, c) for run, c in options]
            ranked = sorted((entry for entry in ranked if entry[0]), key=lambda entry: (len(entry[0]), entry[:3]))
            if ranked:
                names, run, _, other = ranked[0]
                found.append((run, call.tool, call.error, Fix(RepairKind.CHANGE_ARGUMENTS, names), other))
    return found
