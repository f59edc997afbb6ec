"""``fresh expg``: acquire experiences, distil guidance, put it into a tool list, look at what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fresh.expg.endpoint import EndpointSettings, Usage
    from fresh.expg.store import ExperienceStore
    from graph_schema.trajectory import ToolSpec, Trajectory

app = typer.Typer(
    name="expg",
    help="Learn from recorded calls what each tool can do, how it fails and how to call it.",
    no_args_is_help=True,
    add_completion=False,
)


class Asker(StrEnum):
    """Who judges or summarises."""

    RULE = "rule"
    LLM = "llm"


Paths = Annotated[list[Path], typer.Argument(help="Trace files or folders.")]
Tools = Annotated[
    list[Path] | None,
    typer.Option("--tools", help="JSON file of tool schemas, used before those in the traces; may be repeated."),
]
Attacks = Annotated[bool, typer.Option("--include-attacks", help="Keep runs under an injection attack.")]
Format = Annotated[str | None, typer.Option("--format", help="Trace format; by default each file's content tells.")]
Budget = Annotated[int, typer.Option("--budget", min=1, help="Tokens of experience one tool's summary may read (B).")]
Alpha = Annotated[float | None, typer.Option("--alpha", min=0.0, max=1.0, help="Stability threshold; default K/Q.")]
Model = Annotated[str | None, typer.Option("--model", help="Model to ask.")]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="OpenAI-compatible endpoint, up to /v1.")]
Cache = Annotated[Path | None, typer.Option("--cache", help="File that keeps the model's answers.")]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Requests under way at once.")]
MaxRequests = Annotated[int | None, typer.Option("--max-requests", min=0, help="Stop after so many requests.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=0, help="Stop after so many tokens.")]
MaxCost = Annotated[float | None, typer.Option("--max-cost", min=0.0, help="Stop at this cost.")]
PriceIn = Annotated[float, typer.Option("--price-in", min=0.0, help="Cost of a million tokens read.")]
PriceOut = Annotated[float, typer.Option("--price-out", min=0.0, help="Cost of a million tokens written.")]

DEFAULT_BUDGET = 8_000


@app.command()
def acquire(
    paths: Paths,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the experience store; new ones are added.")],
    tools: Tools = None,
    format: Format = None,
    include_attacks: Attacks = False,
    evaluator: Annotated[Asker, typer.Option("--evaluator", help="Judge by rules or ask a model.")] = Asker.RULE,
    model: Model = None,
    base_url: BaseUrl = None,
    cache: Cache = None,
    concurrency: Concurrency = 4,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    price_in: PriceIn = 0.0,
    price_out: PriceOut = 0.0,
) -> None:
    """Judge the calls of recorded runs and store them as experiences."""
    from fresh.expg.evaluate import RuleEvaluator
    from fresh.expg.store import ExperienceStore

    settings = None
    if evaluator is Asker.LLM:
        limits = {"max_requests": max_requests, "max_tokens": max_tokens, "max_cost": max_cost}
        settings = _endpoint(model, base_url, concurrency, limits, price_in, price_out)
    runs = _read(paths, format, include_attacks)
    with ExperienceStore(output) as store:
        before = len(store)
        with _progress("judging calls") as advance:
            if settings is None:
                from fresh.expg.shapes import collect_shapes

                rules, shapes, specs = RuleEvaluator(), collect_shapes(runs), _specs(tools)
                for index, run in enumerate(runs):
                    store.extend(rules.evaluate_trajectory(run, specs, shapes))
                    advance(index + 1, len(runs), "")
            else:
                from fresh.expg.judge import LLMEvaluator

                kept = cache or output / "answers.sqlite"
                store.extend(LLMEvaluator(settings, kept, _costs(advance)).evaluate(runs, _specs(tools)))
        added = len(store) - before
        _say(f"{added} new experiences of {len(store)} in {output}, {store.bytes_on_disk():,} bytes")
        _say_damaged(store)


@app.command()
def distil(
    store: Annotated[Path, typer.Argument(help="Folder of an experience store.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Guidance file to write (JSON).")],
    budget: Budget = DEFAULT_BUDGET,
    alpha: Alpha = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the drawing within classes.")] = 0,
    max_age: Annotated[float | None, typer.Option("--max-age", min=0.0, help="Drop what is so much older.")] = None,
    effectiveness: Annotated[bool, typer.Option(help="Drop what was followed by three worse timestamps.")] = True,
    summariser: Annotated[Asker, typer.Option("--summariser", help="Extract by rule or ask a model.")] = Asker.RULE,
    model: Model = None,
    base_url: BaseUrl = None,
    cache: Cache = None,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    price_in: PriceIn = 0.0,
    price_out: PriceOut = 0.0,
) -> None:
    """Distil guidance for each tool from a store."""
    from fresh.expg.distillation import DistilSettings, Summariser
    from fresh.expg.distillation import distil as run_distil
    from fresh.expg.extract import ExtractiveSummariser
    from fresh.expg.guidance import save_guidance

    experiences = list(_open_store(store))
    tools = {e.tool for e in experiences}
    settings = DistilSettings(budget=budget, alpha=alpha, seed=seed, max_age=max_age, effectiveness=effectiveness)
    writer: Summariser = ExtractiveSummariser()
    if summariser is Asker.LLM:
        from fresh.expg.judge import LLMSummariser

        limits = {"max_requests": max_requests, "max_tokens": max_tokens, "max_cost": max_cost}
        endpoint = _endpoint(model, base_url, 1, limits, price_in, price_out)
        writer = LLMSummariser(endpoint, cache or store / "answers.sqlite")
    done = 0
    with _progress("distilling") as advance:

        def step(tool: str) -> None:
            nonlocal done
            done += 1
            advance(done, len(tools), tool)

        result = run_distil(experiences, writer, settings, step)
    save_guidance(output, result.guidance)
    _print_guidance(result)
    _say(f"guidance for {len(result.guidance)} tools in {output}")


@app.command("tools")
def put_into_tools(
    tools: Annotated[Path, typer.Argument(help="JSON file: a list of tools as an agent sends them.")],
    guidance: Annotated[Path, typer.Option("--guidance", "-g", help="Guidance file from 'distil'.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; by default the screen.")] = None,
) -> None:
    """Put guidance into a tool list: dynamic into descriptions, stable into schemas."""
    from fresh.expg.guidance import load_guidance
    from fresh.expg.reuse import apply_guidance

    text = json.dumps(apply_guidance(_tool_list(tools), load_guidance(guidance)), indent=2, ensure_ascii=False)
    if output is None:
        typer.echo(text)
    else:
        _write(output, text)


@app.command()
def report(
    paths: Paths,
    tools: Tools = None,
    format: Format = None,
    include_attacks: Attacks = False,
    budget: Budget = DEFAULT_BUDGET,
    alpha: Alpha = None,
    output: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON too.")] = None,
) -> None:
    """Show classes by tool, and the rule-based verdicts against what the runs say later."""
    from fresh.expg.report import as_json, tables
    from fresh.expg.report import report as make_report

    found = make_report(_read(paths, format, include_attacks), _specs(tools), budget=budget, alpha=alpha)
    console = _console()
    for table in tables(found):
        console.print(table)
    stable = [f"{row.domain}/{row.tool}" for row in found.tools if row.statistics.stable]
    _say(f"stable ({len(stable)}): {', '.join(stable) or 'none'}")
    if output is not None:
        _write(output, json.dumps(as_json(found), indent=2))


@app.command()
def analysis(
    picture: Annotated[Path | None, typer.Option("--picture", "-o", help="Image to draw (.png, .svg, .pdf).")] = None,
    n: Annotated[int, typer.Option("--population", min=20, help="Experiences in a population.")] = 2000,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Populations to average over.")] = 10,
) -> None:
    """Compare Algorithm 1 with instance-balanced and class-balanced selection."""
    from fresh.expg.analysis import analyse, table
    from fresh.expg.analysis import picture as draw

    rows = analyse(n=n, seeds=seeds)
    _console().print(table(rows))
    bounds = [b for row in rows for b in row.bounds]
    _say(f"bounds of the ideal mixture hold in {sum(b.hold for b in bounds)} of {len(bounds)} populations with K <= Q")
    if picture is not None:
        draw(rows, picture)
        _say(f"picture in {picture}")


def _read(paths: list[Path], format: str | None, include_attacks: bool) -> list[Trajectory]:
    from fresh.traces import TraceReader

    reader = TraceReader(paths, format=format, include_attacks=include_attacks)
    runs: list[Trajectory] = []
    with _progress("reading runs") as advance:
        for run in reader:
            runs.append(run)
            advance(len(runs), None, "")
    left_out = f", {reader.report.attacked} under attack left out" if reader.report.attacked else ""
    _say(f"{len(runs)} runs read, {len(reader.report.skipped)} skipped{left_out}")
    return runs


def _specs(tools: list[Path] | None) -> dict[str, ToolSpec] | None:
    if not tools:
        return None
    from fresh.traces import load_tools_file

    return {spec.name: spec for path in tools for spec in load_tools_file(path)}


def _open_store(path: Path) -> ExperienceStore:
    from fresh.expg.store import ExperienceStore
    from graph_schema.errors import MemoryFileError

    if not (path / "store.json").is_file():
        raise MemoryFileError(f"{path} is no experience store: make one with 'fresh expg acquire PATH -o {path}'")
    with ExperienceStore(path) as store:
        _say_damaged(store)
        if len(store) == 0:
            raise MemoryFileError(f"{path} holds no experience: add some with 'fresh expg acquire PATH -o {path}'")
        return store


def _say_damaged(store: ExperienceStore) -> None:
    for where in store.damaged:
        _say(f"skipped a damaged line: {where}")


def _endpoint(
    model: str | None,
    base_url: str | None,
    concurrency: int,
    limits: dict[str, Any],
    price_in: float,
    price_out: float,
) -> EndpointSettings:
    from fresh.expg.endpoint import EndpointSettings
    from graph_schema.errors import ConfigError

    if model is None:
        raise ConfigError("no model: name one with --model, and its server with --base-url")
    return EndpointSettings(
        model=model, base_url=base_url, concurrency=concurrency, price_in=price_in, price_out=price_out, **limits
    )


def _tool_list(path: Path) -> list[dict[str, Any]]:
    from graph_schema.errors import ConfigError

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if isinstance(found, dict) and isinstance(found.get("tools"), list):
        found = found["tools"]
    if not isinstance(found, list):
        raise ConfigError(f"{path} holds no list of tools: give what is sent as 'tools' to the model")
    return found


def _write(path: Path, text: str) -> None:
    import os

    from graph_schema.errors import ConfigError

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _print_guidance(result: Any) -> None:
    from rich.table import Table

    table = Table(title="Guidance by tool")
    for name in ("tool", "experiences", "read", "K", "Q", "success", "mean score", "kind"):
        table.add_column(name, justify="left" if name in {"tool", "kind"} else "right")
    for name, found in result.guidance.items():
        table.add_row(
            name,
            str(found.experiences),
            str(found.selected),
            str(found.classes),
            str(found.quota),
            f"{found.success_rate:.0%}",
            f"{found.mean_score:.2f}",
            "stable" if found.stable else "dynamic",
        )
    _console().print(table)
    dropped = {
        kind: sum(getattr(report, kind) for report in result.filtered.values())
        for kind in ("repeats", "outdated", "ineffective")
    }
    _say(", ".join(f"{count} {kind}" for kind, count in dropped.items()) + " left out")
    if result.skipped:
        _say(f"a single experience only, skipped: {', '.join(result.skipped)}")


def _costs(advance: Callable[[int, int | None, str], None]) -> Callable[[int, int, Usage], None]:
    def step(done: int, total: int, usage: Usage) -> None:
        tokens = usage.tokens_in + usage.tokens_out
        advance(done, total, f"{usage.requests} requests, {tokens:,} tokens, cost {usage.cost:.4f}")

    return step


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int | None, str], None]]:
    """A progress bar on standard error; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, note="")
        yield lambda done, total, note: bar.update(task, completed=done, total=total, note=note)


def _console() -> Any:
    from rich.console import Console

    plain = Console()
    return plain if plain.is_terminal else Console(width=200)


def _say(text: str) -> None:
    typer.echo(text)
