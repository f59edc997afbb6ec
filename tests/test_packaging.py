"""What the packages promise as packages: light imports, one-way imports, no network, nothing forgotten."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("graph_schema", "fresh", "training", "inference")
COMMAND_LINE = ROOT / "fresh" / "cli"
ALLOWED = {
    "graph_schema": {"graph_schema"},
    "fresh": {"graph_schema", "fresh"},
    "training": {"graph_schema", "fresh", "training"},
    "inference": {"graph_schema", "fresh", "inference"},
}
HEAVY = ("torch", "lightning", "wandb", "sentence_transformers", "transformers", "torch_geometric", "sklearn", "pandas")
WITHOUT_NETWORK = """
import socket
def refuse(self, address, *rest):
    if self.family != socket.AF_UNIX:
        raise OSError(f"no network in this test: {address}")
socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = lambda *a, **k: (_ for _ in ()).throw(OSError(f"no network in this test: {a}"))
"""


def modules(package: str) -> Iterator[Path]:
    return (path for path in sorted((ROOT / package).rglob("*.py")) if "__pycache__" not in path.parts)


def imports_of(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node, node.module


def module_level(tree: ast.Module) -> Iterator[str]:
    """Names imported when the module is, leaving out what only a type checker sees."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            waiting.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name for _, name in imports_of(node))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    wrong = []
    for path in modules(package):
        allowed = set(PACKAGES) if path.parent == COMMAND_LINE else ALLOWED[package]
        for node, name in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            top = name.split(".")[0]
            if top in PACKAGES and top not in allowed:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
    assert not wrong


def test_command_line_imports_nothing_of_the_project_when_it_is_imported() -> None:
    found = {
        f"{path.name}: {name}"
        for path in (COMMAND_LINE / "commands.py", COMMAND_LINE / "evaluate.py", COMMAND_LINE / "options.py")
        for name in module_level(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in PACKAGES and not name.startswith("fresh.cli.")
    }
    assert not found


@pytest.mark.parametrize("package", ["graph_schema", "fresh.traces", "fresh.mining"])
def test_data_and_mining_modules_import_no_heavy_library_at_module_level(package: str) -> None:
    paths = list(modules(package.replace(".", "/")))
    assert paths
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in module_level(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in HEAVY
    }
    assert not wrong


@pytest.mark.parametrize(
    "module",
    [
        "fresh",
        "fresh.cli",
        "graph_schema",
        "fresh.traces",
        "fresh.mining",
        "fresh.collect",
        "fresh.inspect",
        "inference",
    ],
)
def test_import_stays_light(module: str) -> None:
    code = f"import {module}, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []


def test_every_module_can_be_imported() -> None:
    code = WITHOUT_NETWORK + (
        "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n    print(name)\n"
    )
    names = sorted(name for package in PACKAGES for name in all_modules(package))
    result = subprocess.run(
        [sys.executable, "-c", code, *names], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.split() == names


def all_modules(package: str) -> Iterator[str]:
    yield package
    for found in pkgutil.walk_packages([str(ROOT / package)], prefix=f"{package}."):
        if not found.name.endswith("__main__"):
            yield found.name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_with_modules_is_a_package(package: str) -> None:
    folders = {path.parent for path in modules(package)}
    assert {str(folder) for folder in folders if not (folder / "__init__.py").is_file()} == set()
    assert (ROOT / package / "py.typed").is_file()


def test_help_is_quick() -> None:
    """CPU time, the best of three, so that a busy machine does not decide."""
    code = (
        "import resource, sys\n"
        "from fresh.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, file=sys.stderr)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    assert "Usage" in runs[0].stdout
    assert min(float(run.stderr.split()[-1]) for run in runs) < 0.4


def test_console_scripts_point_at_callables() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["scripts"]) == {"fresh", "lightning"}
    for target in project["scripts"].values():
        module, name = target.split(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_exported_names_exist_and_are_sorted() -> None:
    for name in (name for package in PACKAGES for name in all_modules(package)):
        source = ROOT / name.replace(".", "/") / "__init__.py"
        if not source.is_file() or "__all__" not in source.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(name)
        assert len(set(module.__all__)) == len(module.__all__), name
        assert [n for n in module.__all__ if not hasattr(module, n)] == [], name


def test_no_pickle_in_anything_a_user_loads() -> None:
    wrong = []
    for package in PACKAGES:
        for path in modules(package):
            text = path.read_text(encoding="utf-8")
            for node, name in imports_of(ast.parse(text)):
                if name.split(".")[0] in ("pickle", "cloudpickle", "dill", "joblib", "shelve"):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
            if re.search(r"weights_only\s*=\s*False", text):
                wrong.append(f"{path.relative_to(ROOT)} loads with weights_only=False")
    assert not wrong


def test_mining_and_embedding_need_no_network(tmp_path: Path) -> None:
    code = WITHOUT_NETWORK + "from fresh.cli import main\nimport sys\nmain(sys.argv[1:])\n"
    traces = ROOT / "tests" / "data" / "desks" / "garden.jsonl"
    result = subprocess.run(
        [sys.executable, "-c", code, "mine", str(traces), "-o", str(tmp_path / "memory"), "--workers", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert (tmp_path / "memory" / "manifest.json").is_file()


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "sample", "clean"])
def test_makefile_has_the_documented_targets(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert f"make {target}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_in_the_readme_runs_as_printed() -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK + block[1]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert "find_customer with email=nora.vale@garden.example" in result.stdout
    assert "revise" in result.stdout
    assert "call get_order with order_id #G9901" in result.stdout
