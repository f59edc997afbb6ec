"""Rules written by hand, in one YAML file and in the language of the mined guards.

.. code-block:: yaml

    rules:
      - tool: cancel_*                 # a name or a glob
        text: Look at the order before it is cancelled.
        severity: revise               # warn, revise, block or transfer
        condition: {kind: read_before, tool: get_order, parameter: order_id, argument: order_id}

A rule drafted by a model says ``reviewed: false`` and counts for nothing until a person has made that ``true``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fresh.conditions import Condition, ReadBefore, argument_values
from fresh.gate.context import Context
from fresh.gate.decision import Finding, GuardState, State, Todo, Verdict
from fresh.gate.guards import evidence
from fresh.gate.rules import check_rules
from fresh.knowledge import Rule, ToolIndex
from graph_schema.errors import ConfigError
from graph_schema.trajectory import Effect

if TYPE_CHECKING:
    from yaml import SafeLoader

_GLOB = frozenset("*?[")
_STATES = {True: State.SATISFIED, False: State.VIOLATED, None: State.UNKNOWN}


class PolicyRule(BaseModel):
    """One rule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(min_length=1)
    """Name of the tool, or a glob."""
    text: str = Field(min_length=1)
    """The rule in words, for the agent and for people."""
    condition: Condition
    """What must hold."""
    severity: Literal["warn", "revise", "block", "transfer"] = "revise"
    """What its violation leads to. ``revise`` becomes ``block`` where nothing in reach can mend the call."""
    unknown: Literal["pass", "hold"] = "pass"
    """What happens while it cannot be told: the call passes, or is held back until the object has been seen."""
    reads: bool = False
    """Whether a glob takes in tools that only read; a name always does."""
    reviewed: bool = True
    """Whether a person has seen it. Until then it counts for nothing."""
    quote: str = ""
    """For a drafted rule, the words of the document it comes from."""

    def plain(self) -> dict[str, Any]:
        """The rule as plain values, fields at their default left out."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        condition = self.condition.model_dump(mode="json", exclude_defaults=True)
        return values | {"condition": {"kind": self.condition.kind} | condition}

    def covers(self, tool: str, effect: Effect) -> bool:
        """Whether it speaks of a tool."""
        if not _GLOB & set(self.tool):
            return tool == self.tool
        return (self.reads or effect is not Effect.READ) and fnmatchcase(tool, self.tool)


@dataclass(frozen=True)
class Policy:
    """The rules of one file, in its order.

    Attributes:
        source: Name of the file, for messages.
    """

    rules: tuple[PolicyRule, ...] = ()
    source: str = "policy"

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """Where the rules stand that nobody has reviewed and that therefore do not count."""
        return tuple(self.place(number) for number, rule in enumerate(self.rules) if not rule.reviewed)

    def warning(self) -> str:
        """One line on the rules that do not count; empty where all do."""
        left_out = self.unreviewed
        if not left_out:
            return ""
        return (
            f"{self.source}: {len(left_out)} of {len(self.rules)} rules are not reviewed and do not count "
            f"(rule {', '.join(place.rsplit(' ', 1)[1] for place in left_out[:10])}): "
            "read them and set reviewed: true"
        )

    def place(self, number: int) -> str:
        """Where a rule stands, for people: rules are counted from 1."""
        return f"{self.source}, rule {number + 1}"

    def rules_for(self, context: Context) -> tuple[tuple[str, PolicyRule], ...]:
        """``(place, rule)`` of the reviewed rules that speak of the call's tool."""
        return tuple(
            (self.place(number), rule)
            for number, rule in enumerate(self.rules)
            if rule.reviewed and rule.covers(context.call.tool, context.effect)
        )

    def idle(self, index: ToolIndex) -> tuple[str, ...]:
        """One line for each rule that speaks of no tool that the memory knows: often a slip of the pen."""
        names = index.names
        return tuple(
            f"{self.place(number)}: the memory knows no tool {rule.tool!r}"
            for number, rule in enumerate(self.rules)
            if not any(fnmatchcase(name, rule.tool) for name in names)
        )

    def plain(self) -> list[dict[str, Any]]:
        """The rules as plain values, for a file or a manifest."""
        return [rule.plain() for rule in self.rules]


def load_policy(path: Path | str) -> Policy:
    """Reads a policy file.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or a rule is wrong; the message names rule and field.
    """
    import yaml

    path = Path(path)
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_loader())
    except OSError as error:
        raise ConfigError(f"cannot read the policy {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the policy {path} is not UTF-8 text: save it as UTF-8") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"the policy {path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or set(data) != {"rules"}:
        raise ConfigError(f"the policy {path} must be an object with a list under 'rules' and nothing else")
    return parse_policy(data["rules"], str(path))


def parse_policy(rules: Any, source: str = "policy") -> Policy:
    """Rules from plain values, as a file or a manifest holds them.

    Raises:
        ConfigError: They are no list, or a rule is wrong.
    """
    if not isinstance(rules, list):
        raise ConfigError(f"{source}: rules must be a list, not {type(rules).__name__}")
    return Policy(tuple(_rule(item, f"{source}, rule {number}") for number, item in enumerate(rules, 1)), source)


def _rule(item: Any, place: str) -> PolicyRule:
    if not isinstance(item, Mapping):
        raise ConfigError(f"{place}: expected an object with tool, text, severity and condition")
    try:
        return PolicyRule.model_validate(item)
    except ValidationError as error:
        raise ConfigError(f"{place} ({item.get('tool', 'no tool')}): {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Field and fault of the first thing that pydantic found wrong, on one line."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {' '.join(first['msg'].split())}"


def _loader() -> type[SafeLoader]:
    """A safe loader that refuses a key given twice, whose first value would silently be lost."""
    import yaml

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None:
                raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is given twice", node.start_mark)
            return super().construct_mapping(node, deep)

    return Strict


# -- at the gate -------------------------------------------------------------------------------------------------


def check_policy(context: Context, rules: Iterable[tuple[str, PolicyRule]]) -> list[Finding]:
    """A finding for each rule that does not hold."""
    return [found for place, rule in rules if (found := _check(context, place, rule)) is not None]


def policy_states(context: Context, rules: Iterable[tuple[str, PolicyRule]]) -> tuple[GuardState, ...]:
    """The state of each rule on this history."""
    history = context.live.history
    return tuple(
        GuardState(
            check=rule.condition.kind,
            state=_STATES[_holds(context, rule, _found(context, rule))],
            text=rule.text,
            policy=place,
            evidence=evidence(rule.condition, context.arguments, history),
        )
        for place, rule in rules
    )


def _check(context: Context, place: str, rule: PolicyRule) -> Finding | None:
    found = _found(context, rule)
    holds = _holds(context, rule, found)
    if holds or (holds is None and rule.unknown == "pass"):
        return None
    todos = tuple(todo for item in found for todo in item.todo) if holds is False else _look_first(context, rule)
    reasons = [item.reason for item in found] if holds is False else ["it cannot be told yet"]
    return Finding(
        check=rule.condition.kind,
        verdict=_verdict(context, rule, todos, holds),
        reason=f"{rule.text.rstrip('.')}" + (f" ({'; '.join(reasons)})" if reasons else ""),
        todo=todos,
        policy=place,
    )


def _found(context: Context, rule: PolicyRule) -> list[Finding]:
    """What the gate would find and advise if the condition had been mined."""
    return check_rules(replace(context, rules=(Rule(-1, rule.condition, 0),)))


def _holds(context: Context, rule: PolicyRule, found: Sequence[Finding]) -> bool | None:
    return False if found else rule.condition.holds(context.arguments, context.live.history)


def _verdict(context: Context, rule: PolicyRule, todos: Sequence[Todo], holds: bool | None) -> Verdict:
    if rule.severity == "warn":
        return Verdict.ALLOW
    if todos and (rule.severity == "revise" or holds is None):
        return Verdict.REVISE
    return Verdict.TRANSFER if rule.severity == "transfer" and context.handover else Verdict.BLOCK


def _look_first(context: Context, rule: PolicyRule) -> tuple[Todo, ...]:
    """The look-ups that would show the objects which the call names."""
    argument = str(getattr(rule.condition, "argument", ""))
    reader = context.index.lookups.get(argument.replace("[]", ""))
    if reader is None or not argument_values(context.arguments, argument):
        return ()
    first = Rule(-1, ReadBefore(tool=reader[0], parameter=argument.replace("[]", ""), argument=argument), 0)
    return tuple(todo for item in check_rules(replace(context, rules=(first,))) for todo in item.todo)
