"""Puts measured results into README.md, between markers, so that no figure there was typed by hand.

A place for results is a pair of markers, the first of which names a file under docs/results and the command that writes
it::

    <!-- results: retrieval-airline.json | fresh eval retrieval airline --data DATA --json FILE -->
    <!-- end results -->

What stands between them is replaced by the command and its results: a table for the JSON that the ``fresh eval`` and
``fresh mine`` commands write, the text itself for a ``.txt`` or ``.md`` file. A result that is not there yet is called
missing.

    python benchmarks/render_results.py           # rewrite README.md
    python benchmarks/render_results.py --check   # exit 1 if README.md is not what the results say
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results"
_PLACE = re.compile(
    r"<!-- results: (?P<file>[\w.-]+) \| (?P<command>.+?) -->\n(?P<body>.*?)<!-- end results -->", re.DOTALL
)


def render(text: str, results: Path = RESULTS) -> str:
    """The text with every place for results filled from the files in a folder."""
    return _PLACE.sub(lambda match: _fill(match, results), text)


def _fill(match: re.Match[str], results: Path) -> str:
    file, command = match["file"], match["command"]
    body = "\n\n".join(_body(results / file))
    start = f"<!-- results: {file} | {command} -->"
    return f"{start}\n\n`{command}`\n\n{body}\n\n<!-- end results -->"


def _body(path: Path) -> list[str]:
    if not path.is_file():
        return ["_Not measured yet: the command above writes the result._"]
    if path.suffix == ".md":
        return [re.sub(r"^#+ ", "#### ", path.read_text(encoding="utf-8"), flags=re.MULTILINE).strip()]
    if path.suffix == ".txt":
        return [f"```text\n{path.read_text(encoding='utf-8').rstrip()}\n```"]
    values = json.loads(path.read_text(encoding="utf-8"))
    for key, tables in _TABLES.items():
        if key in values:
            return [*tables(values), *_made_with(values)]
    raise SystemExit(f"{path}: none of {', '.join(_TABLES)} is in it; this script does not know such results")


# -- the kinds of results ----------------------------------------------------------------------------------------


def _retrieval(values: dict[str, Any]) -> list[str]:
    metrics = list(next(iter(values["nodes"].values())))
    ordered = sorted(values["nodes"].items(), key=lambda item: item[1][metrics[0]]["mean"])
    parts = [table(["ranker", *metrics], [[name, *(_estimate(own[m]) for m in metrics)] for name, own in ordered])]
    best = values["best_other"]
    parts.append(
        f"The trained reranker's {metrics[0]} is {values['ratio']:.2f} times that of the best other ranker ({best}); "
        f"paired difference {_estimate(values['difference'][metrics[0]])}."
    )
    if values["runs"]:
        rows = sorted(values["runs"].items(), key=lambda item: item[1]["mean"])
        parts.append(table(["ranker of runs", "MRR@10"], [[name, _estimate(own)] for name, own in rows]))
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in values["counts"].items())
    return [*parts, f"{counts}; mean over tasks [95% bootstrap interval over tasks]."]


def _closed_loop(values: dict[str, Any]) -> list[str]:
    rows, errors = [], []
    for item in values["comparisons"]:
        domain = item["gated"]["domain"]
        for name, passes in (("without gate", item["without"]["pass_k"]), ("with gate", item["gated"]["pass_k"])):
            rows.append([domain, name, *(_estimate(passes[k]) for k in sorted(passes))])
        rows.append([domain, "difference", *(_estimate(item["gain"][k]) for k in sorted(item["gain"]))])
        arm = item["gated"]
        made = sum(kind["made"] for kind in arm["faults"].values())
        caught = sum(kind["caught"] for kind in arm["faults"].values())
        held, due = arm["held_writes"], arm["due_writes"]
        errors.append([domain, _share(caught, made), _share(held, due), f"{arm['write_ms']:.2f} ms"])
    deepest = sorted(values["comparisons"][0]["gain"])
    tables = [
        table(["domain", "", *(f"pass^{k}" for k in deepest)], rows),
        table(["domain", "injected errors caught", "gold writes held back", "decision on a write, median"], errors),
    ]
    if any(item.get("ablations") for item in values["comparisons"]):
        tables = [_ablated(values["comparisons"], deepest[-1])]
    return [*tables, "The executor is simulated."]


def _ablated(comparisons: Sequence[dict[str, Any]], k: str) -> str:
    """The closed loop with all guards, without each, and without all."""
    rows = []
    for item in comparisons:
        arms = [("nothing", item["gated"]), *item["ablations"].items(), ("all", item["without"])]
        for name, arm in arms:
            made = sum(kind["made"] for kind in arm["faults"].values())
            caught = sum(kind["caught"] for kind in arm["faults"].values())
            passes = [_estimate(arm["pass_k"][n]) for n in ("1", k)]
            rows.append([item["gated"]["domain"], name, *passes, _share(caught, made), str(arm["wrong_writes"])])
    return table(["domain", "without", "pass^1", f"pass^{k}", "errors caught", "wrong writes made"], rows)


def _gate(values: dict[str, Any]) -> list[str]:
    names = {"passed_right": "right writes let pass", "held_wrong": "wrong writes held"}
    names |= {"held_accepted": "of those taken", "held_refused": "of those refused"}
    rows = [[report["name"], *(_rate(report[name]) for name in names)] for report in values["gate"]]
    kinds = [
        [
            report["name"],
            kind,
            *(str(count["held"][part]) for part in ("whole", "part")),
            *(str(count[name]) for name in ("refused", "foreseeable", "held_foreseeable", "meaning_only")),
        ]
        for report in values["gate"]
        for kind, count in report["kinds"].items()
    ]
    chosen = [
        [curve["name"], f"{point['max_false_block']:.1%}", _rate(point["false_block"]), _rate(point["recall"])]
        for curve in values["curves"]
        if (point := curve["chosen"]) is not None
    ]
    columns = ["runs of", "kind", "wrong", "held", "refused anyway", "foreseeable", "held of these", "meaning only"]
    judged = table(["runs of", *names.values()], rows)
    if values.get("transfer"):
        return [judged, _transferred(values["transfer"])]
    return [
        judged,
        table(columns, kinds),
        table(["runs of", "bound", "right writes held", "wrong writes held"], chosen),
    ]


def _transferred(values: dict[str, Any]) -> str:
    checks = ", ".join(f"{name} {count}" for name, count in values["unseen_checks"].items())
    verdicts = ", ".join(f"{name} {count}" for name, count in values["unseen_verdicts"].items())
    return (
        f"Guards mined by the memory were violated by {values['unseen_mined']} of {values['unseen_calls']} calls of "
        f"tools that it has never seen, and by {values['known_mined']} of {values['known_calls']} calls of tools that "
        f"it knows. Of the unseen: {verdicts}; what spoke, warnings included: {checks}."
    )


def _mined(values: dict[str, Any]) -> list[str]:
    outcomes = ("success", "failure", "unknown")
    rows = [[row["domain"] or "(none)", *(str(row[name]) for name in outcomes)] for row in values["outcomes"]]
    skipped = len(values["skipped"])
    return [
        table(["domain", *outcomes], rows),
        f"{values['runs']} distinct runs from {values['files']} files; {skipped} records skipped; "
        f"{values['attacked']} runs under attack left out.",
    ]


def _executor(values: dict[str, Any]) -> list[str]:
    """A language model in the loop: each measure by arm, with its paired difference from the first arm below it."""
    arms = values["arms"]
    first = next(iter(arms))
    rows = []
    for name in arms[first]["means"]:
        rows.append([name, *(_short_estimate(arm["means"][name]) for arm in arms.values())])
        paired = [_short_estimate(arm["differences"].get(name)) if arm["differences"] else "" for arm in arms.values()]
        rows.append([f"less {first}", *paired])
    tasks = len({run["task"] for run in values["runs"]})
    model = values["common"].get("model", "")
    sample = f"{values['domain']}, {tasks} tasks, a small sample; the model is {model}; mean over tasks [95% interval]."
    return [table(["", *arms], rows), sample]


def _compared(values: dict[str, Any]) -> list[str]:
    """Memories side by side, the best of each column in bold; the rest of it stands in the file beside."""
    heads = {"next_f1": "next tool F1", "foreseen_recall": "foreseen", "false_warnings": "false warnings"}
    heads |= {"foreseen_f1": "foreseen F1", "harm": "harm"}
    rows = []
    for row in values["rows"]:
        cells = [row["memory"]]
        for name in heads:
            cell = _estimate(row["measures"][name]) if row["measures"][name] else "-"
            cells.append(f"**{cell}**" if row["memory"] in values["best"][name] else cell)
        rows.append([*cells, f"{row['cost']['tokens']:.0f}", f"{row['cost']['p50_ms']:.1f}"])
    counts, settings = values["counts"], values["settings"]
    sides = [f"{word}: {', '.join(settings[key])}" for word, key in _SIDES if settings[key]]
    counted = f"{counts['measured_runs']} runs of {counts['tasks']} held-out tasks, {counts['points']} decision points"
    file = f"docs/results/compare-{values['compare']}"
    return [
        f"#### {values['compare']}",
        table(["memory", *heads.values(), "tokens", "p50 ms"], rows),
        "\n".join(f"- {line}" for line in values["verdicts"]),
        f"![{values['compare']}]({file}.png)",
        f"{'; '.join([*sides, counted])}; [precision, recall, costs, differences]({file}.md).",
        *values["notes"],
    ]


_SIDES = (("mined", "mine_agents"), ("measured", "measure_agents"))


_TABLES = {
    "compare": _compared,
    "arms": _executor,
    "nodes": _retrieval,
    "comparisons": _closed_loop,
    "gate": _gate,
    "outcomes": _mined,
}
"""What makes tables of a result, by a key that only this kind of result has."""


# -- text --------------------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _made_with(values: dict[str, Any]) -> list[str]:
    versions = values.get("versions") or {}
    seed = (values.get("settings") or {}).get("seed")
    said = [f"{name} {version}" for name, version in sorted(versions.items())]
    return [f"<sub>{', '.join(said)}{f'; seed {seed}' if seed is not None else ''}</sub>"] if said else []


def _estimate(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def _short_estimate(value: dict[str, float] | None) -> str:
    if value is None:
        return "-"
    digits = 0 if abs(value["mean"]) >= 100 else 2
    return f"{value['mean']:.{digits}f} [{value['low']:.{digits}f}, {value['high']:.{digits}f}]"


def _rate(value: dict[str, float] | None) -> str:
    if not value:
        return "-"
    return f"{value['value']:.1%} [{value['low']:.1%}, {value['high']:.1%}] of {value['whole']}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of {whole}" if whole else "-"


def main(args: Sequence[str]) -> int:
    """Rewrites or checks README.md; returns the exit status."""
    before = README.read_text(encoding="utf-8")
    after = render(before)
    if "--check" in args:
        return int(before != after)
    if before != after:
        part = README.with_name(".README.md.part")
        part.write_text(after, encoding="utf-8")
        part.replace(README)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
