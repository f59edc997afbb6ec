"""``fresh eval``: a memory measured on tasks that were not mined."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fresh.cli.options import AsJson, JsonFile, Memory, Tools, console

evaluate = typer.Typer(help="Measure a memory on tasks that were not mined.", no_args_is_help=True)


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
    run(config, fit_reranker, data_folder=data, without_expg=left_out, json_file=json_file, console=console())


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
    from fresh.cli.files import write_json
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
        console().print(table)
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
    from fresh.cli.files import print_json
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
        console=console(stderr=True),
        partial=without_check(gate) if ablate else None,
    )
    print("The executor is simulated: it follows each task's gold actions and makes structural errors at set rates.")
    for table in report.tables():
        console().print(table)
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
    from fresh.cli.files import write_json
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
        console=console(stderr=True),
    )
    for table in report.tables():
        console().print(table)
    write_json(output / "report.json", report.as_json())
    if json_file is not None:
        write_json(json_file, report.as_json())
