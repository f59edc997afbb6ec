"""What ``fresh policy`` and the option ``--policy`` do: rules written by hand or drafted by a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

if TYPE_CHECKING:
    from fresh.gate.decision import Mode
    from fresh.gate.policy import Policy


def show(policy: Path, memory: Path | None, as_json: bool) -> None:
    """Checks a policy file and prints its rules; what does not count or speaks of no known tool, on standard error."""
    from fresh.cli.files import print_json
    from fresh.gate.policy import load_policy

    rules = load_policy(policy)
    if as_json:
        print_json(rules.plain())
    else:
        from rich.console import Console

        from fresh.inspect import policy_rows, policy_table

        Console(width=None if sys.stdout.isatty() else 120).print(policy_table(policy_rows(rules)))
    lines = [rules.warning()] if rules.warning() else []
    if memory is not None:
        from fresh.knowledge import ToolIndex
        from graph_schema.graph import ExperienceGraph

        lines += rules.idle(ToolIndex(ExperienceGraph.load(memory)))
    for line in lines:
        print(line, file=sys.stderr)


def draft(document: Path, output: Path, model: str, base_url: str | None, tools: Path | None, attempts: int) -> None:
    """Drafts rules from a policy document with a language model, and says what was dropped."""
    from fresh.expg.endpoint import EndpointSettings
    from fresh.gate.draft import draft_policy, save_draft
    from fresh.traces import load_tools_file
    from graph_schema.errors import ConfigError

    if output.exists():
        raise ConfigError(f"{output} is there already and may have been reviewed: name another file")
    try:
        text = document.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{document} is not UTF-8 text: save it as plain text or Markdown") from None
    specs = load_tools_file(tools) if tools else ()
    made = draft_policy(text, EndpointSettings(model=model, base_url=base_url, attempts=attempts), specs)
    save_draft(made, output, model)
    for line in made.dropped:
        print(f"dropped: {line}", file=sys.stderr)
    for line in made.unquoted:
        print(f"its quote is not in the document: {line}", file=sys.stderr)
    print(f"{output}: {len(made.rules)} rules, none reviewed; read them and set reviewed: true where they are right")


def read_policy(policy: Path | None) -> Policy | None:
    """The policy of an option ``--policy``; says on standard error which of its rules wait for a person.

    Raises:
        ConfigError: A rule is wrong.
    """
    from fresh.gate.policy import load_policy

    if policy is None:
        return None
    rules = load_policy(policy)
    if rules.warning():
        print(rules.warning(), file=sys.stderr)
    return rules


def read_mode(name: str | None) -> Mode | None:
    """The mode of an option ``--mode``; None where it was not given.

    Raises:
        ConfigError: There is no such mode.
    """
    from fresh.gate.decision import Mode
    from graph_schema.errors import ConfigError

    known = get_args(Mode)
    if name is not None and name not in known:
        raise ConfigError(f"--mode is {name!r}; write {', '.join(known[:-1])} or {known[-1]}")
    return cast("Mode | None", name)
