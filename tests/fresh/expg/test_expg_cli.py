import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fresh.expg.cli import app
from graph_schema.errors import ConfigError, FreshError, MemoryFileError

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_parcel",
            "description": "Looks a parcel up.",
            "parameters": {
                "type": "object",
                "properties": {"parcel_id": {"type": "string"}},
                "required": ["parcel_id"],
            },
        },
    }
]


def chat(number: int) -> dict[str, object]:
    """A run as plain chat messages; every third lookup fails."""
    parcel = f"P{number:05d}"
    answer = (
        "Error: the register is closed" if number % 3 == 0 else json.dumps({"parcel_id": parcel, "depot": "Northgate"})
    )
    function = {"name": "get_parcel", "arguments": json.dumps({"parcel_id": parcel})}
    return {
        "messages": [
            {"role": "user", "content": f"Where is {parcel}?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": answer},
            {"role": "assistant", "content": "It lies at Northgate."},
        ],
        "tools": TOOLS,
        "task_id": f"t{number}",
        "success": number % 3 != 0,
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(chat(n)) + "\n" for n in range(12)))
    return path


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_from_runs_to_a_tool_list(runs: Path, tmp_path: Path) -> None:
    store, guidance, tools = tmp_path / "store", tmp_path / "guidance.json", tmp_path / "tools.json"
    assert "12 new experiences of 12" in invoke("acquire", runs, "-o", store)
    assert "0 new experiences of 12" in invoke("acquire", runs, "-o", store)
    printed = invoke("distil", store, "-o", guidance, "--alpha", "0.8")
    assert "get_parcel" in printed and "67%" in printed and "dynamic" in printed
    tools.write_text(json.dumps({"tools": TOOLS}))
    (tool,) = json.loads(invoke("tools", tools, "--guidance", guidance))
    assert "Answered without an error in 8 of 12 calls." in tool["function"]["description"]
    assert "P000" not in json.dumps(tool)
    invoke("distil", store, "-o", guidance, "--alpha", "0.2", "--budget", "600")
    invoke("tools", tools, "-g", guidance, "-o", tmp_path / "out.json")
    (tool,) = json.loads((tmp_path / "out.json").read_text())
    assert "In 4 of 12 calls: the tool answered with an error" in tool["function"]["parameters"]["description"]
    assert tool["function"]["description"] == "Looks a parcel up."


def test_report(runs: Path, tmp_path: Path) -> None:
    printed = invoke("report", runs, "--json", tmp_path / "report.json", "--alpha", "0.2", "--budget", "600")
    assert "0 of 4" in printed and "stable (1):" in printed
    record = json.loads((tmp_path / "report.json").read_text())
    assert record["experiences"] == 12 and record["error_responses"] == 4 and record["errors_not_zero"] == 0
    (tool,) = record["tools"]
    assert tool["perfect_share"] == 8 / 12 and tool["stable"] is True
    row = next(r for r in record["agreement"] if r["aspect"] == "required_given")
    assert (row["decided"], row["zeros"], row["bad_of_ones"], row["agreement"]) == (12, 0, 4, 8 / 12)


def test_analysis(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    printed = invoke("analysis", "--population", 100, "--seeds", 1, "--picture", tmp_path / "a.svg")
    assert "Algorithm 1" in printed and "bounds of the ideal mixture hold in" in printed
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_mistakes_are_errors_of_ours_and_leave_nothing(runs: Path, tmp_path: Path) -> None:
    cases: list[tuple[type[FreshError], str, list[object]]] = [
        (FreshError, "absent", ["acquire", tmp_path / "absent", "-o", tmp_path / "s1"]),
        (ConfigError, "--model", ["acquire", runs, "-o", tmp_path / "s2", "--evaluator", "llm"]),
        (MemoryFileError, "no experience store", ["distil", tmp_path / "s3", "-o", tmp_path / "g.json"]),
        (ConfigError, "cannot read", ["tools", tmp_path / "no.json", "-g", tmp_path / "g.json"]),
        (ConfigError, "holds no list", ["tools", _file(tmp_path / "t.json", '{"a": 1}'), "-g", tmp_path / "g.json"]),
        (ConfigError, "not JSON", ["tools", _file(tmp_path / "u.json", "{"), "-g", tmp_path / "g.json"]),
        (MemoryFileError, "cannot read", ["tools", _file(tmp_path / "v.json", "[]"), "-g", tmp_path / "g.json"]),
    ]
    for kind, words, arguments in cases:
        with pytest.raises(kind, match=words):
            invoke(*arguments)
    assert not [p for p in tmp_path.iterdir() if p.name in {"s1", "s2", "s3", "g.json"}]


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_importing_the_command_line_is_light() -> None:
    heavy = {"torch", "lightning", "pandas", "openai", "numpy", "jsonschema", "pydantic", "matplotlib"}
    code = f"import fresh.expg.cli, sys; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    import fresh.expg

    assert fresh.expg.__all__ == sorted(
        fresh.expg.__all__, key=lambda name: (not name.isupper(), name.lower() == name, name)
    )
    assert all(getattr(fresh.expg, name) is not None for name in fresh.expg.__all__)
    assert callable(fresh.expg.distil) and callable(fresh.expg.partition)
    with pytest.raises(AttributeError):
        fresh.expg.nothing_of_the_kind  # noqa: B018


def test_distilling_a_damaged_store_says_what_it_skipped(runs: Path, tmp_path: Path) -> None:
    invoke("acquire", runs, "-o", tmp_path / "store")
    file = tmp_path / "store" / "experiences.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    printed = invoke("distil", tmp_path / "store", "-o", tmp_path / "guidance.json")
    assert "skipped a damaged line: experiences.jsonl:12" in printed
