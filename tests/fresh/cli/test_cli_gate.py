from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from memory_shop import TOOLS, Chat, call, make_graph
from typer.testing import CliRunner

from fresh.cli import app, main
from fresh.frozen import freeze

CANCEL = {"order_id": "#W111", "reason": "mistake"}
RULES = [
    {
        "tool": "cancel_*",
        "text": "Find the customer first.",
        "condition": {"kind": "called_before", "tool": "find_customer"},
    }
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    freeze(make_graph(), tmp_path / "memory")
    (tmp_path / "chat.json").write_text(json.dumps({"messages": Chat().read("#W111").messages, "tools": TOOLS}))
    (tmp_path / "call.json").write_text(json.dumps(call("cancel_order", CANCEL)))
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": [*RULES, RULES[0] | {"reviewed": False}]}))
    return {name: str(tmp_path / name) for name in ("memory", "chat.json", "call.json", "policy.yaml", "audit.jsonl")}


def gate(files: dict[str, str], *options: str) -> Any:
    return CliRunner().invoke(app, ["gate", files["memory"], files["chat.json"], files["call.json"], *options])


def test_explain_prints_guards_evidence_and_runs(files: dict[str, str]):
    done = gate(files, "--explain")
    assert done.exit_code == 0 and done.stdout.startswith("revise cancel_order: the user has not agreed")
    assert "live/1/0" in done.stdout and "runs run00" in done.stdout and "support 30" in done.stdout


def test_a_policy_is_enforced_and_what_waits_for_review_is_said(files: dict[str, str]):
    done = gate(files, "--policy", files["policy.yaml"])
    assert "Find the customer first" in done.stdout and "rule 2" in done.stderr
    shown = json.loads(gate(files, "--policy", files["policy.yaml"], "--json").stdout)
    assert [guard["policy"] for guard in shown["guards"] if guard["policy"]] == [f"{files['policy.yaml']}, rule 1"]


def test_advice_is_given_and_recorded(files: dict[str, str]):
    done = gate(files, "--mode", "advise", "--audit", files["audit.jsonl"])
    assert done.stdout.startswith("allow: revise if enforced")
    (line,) = Path(files["audit.jsonl"]).read_text().splitlines()
    assert json.loads(line)["advised"] == "revise"


def test_a_mode_that_is_none_is_one_line(files: dict[str, str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["gate", files["memory"], files["chat.json"], files["call.json"], "--mode", "strict"])
    assert "write enforce, advise or off" in capsys.readouterr().err


def test_inspect_shows_the_rules_with_the_tools_they_speak_of(files: dict[str, str]):
    options = ["inspect", files["memory"], "--policy", files["policy.yaml"]]
    wide = CliRunner(env={"COLUMNS": "160"})
    assert "Find the customer first" in wide.invoke(app, options).stdout.replace("\n", " ")
    assert "Policy rules" in CliRunner().invoke(app, [*options, "--tool", "cancel_order"]).stdout
    assert "Policy rules" not in CliRunner().invoke(app, [*options, "--tool", "get_order"]).stdout
    report = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert [rule["reviewed"] for rule in report["policy"]] == [True, False]


def test_a_frozen_memory_may_carry_its_policy(tmp_path: Path):
    from fresh.gate import Verdict
    from inference import load

    freeze(make_graph(rules=False), tmp_path / "m", manifest={"policy": RULES})
    decision = load(tmp_path / "m").gate(call("cancel_order", CANCEL), Chat().messages, TOOLS)
    assert decision.verdict is Verdict.REVISE and "rule 1" in decision.findings[0].policy


def test_a_policy_file_warns_when_a_memory_is_loaded_with_it(files: dict[str, str]):
    from inference import load

    with pytest.warns(UserWarning, match="not reviewed"):
        memory = load(files["memory"], policy=files["policy.yaml"])
    decision = memory.gate(call("cancel_order", CANCEL), Chat().messages, TOOLS)
    assert [finding.policy for finding in decision.findings if finding.policy], "the reviewed rule counts"
