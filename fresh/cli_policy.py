"""``fresh policy``: rules written by hand or drafted by a model, shown and checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

if TYPE_CHECKING:
    from fresh.gate.decision import Mode
    from fresh.gate.policy import Policy

app = typer.Typer(help="Rules for the gate, written by hand or drafted from a document.", no_args_is_help=True)


@app.command()
def show(
    policy: Annotated[Path, typer.Argument(help="Policy file (YAML).", show_default=False)],
    memory: Annotated[
        Path | None, typer.Option("--memory", help="Name rules on tools that this memory does not know.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a policy file and print its rules."""
    from fresh.cli_files import print_json
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


@app.command()
def draft(
    document: Annotated[Path, typer.Argument(help="Policy document: text or Markdown.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Policy file to write.", show_default=False)],
    model: Annotated[str, typer.Option("--model", help="Name of the model.", show_default=False)],
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="OpenAI-compatible endpoint; the client's own by default.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", help="JSON file of the agent's tools; rules on others are dropped.")
    ] = None,
    attempts: Annotated[int, typer.Option("--attempts", min=1, help="Tries of one question.")] = 3,
) -> None:
    """Draft rules from a policy document with a language model; none counts until a person has reviewed it."""
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
    settings = EndpointSettings(model=model, base_url=base_url, attempts=attempts)
    made = draft_policy(text, settings, specs)
    save_draft(made, output, model)
    for line in made.dropped:
        print(f"dropped: {line}", file=sys.stderr)
    for line in made.unquoted:
        print(f"its quote is not in the document: {line}", file=sys.stderr)
    print(f"{output}: {len(made.rules)} rules, none reviewed; read them and set reviewed: true where they are right")


def read(policy: Path | None) -> Policy | None:
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


def mode(name: str | None) -> Mode | None:
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
