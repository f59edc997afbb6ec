"""The notebooks run from top to bottom, are committed without outputs, and say what they should."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "notebooks"
SAYS = {
    "01_inspect_graph": ["Precondition", "card <CARD_ID> not found", "caught 0."],
    "02_training": ["val/ndcg@10", "network", "BM25"],
    "03_guide_and_gate": ["Do: call find_customer", "revise", "allow", "is frozen"],
}


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_notebook(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in code for output in cell.outputs]
    printed = "".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", "")) for output in outputs
    )
    for words in SAYS[name]:
        assert words in printed
    if name == "01_inspect_graph":
        assert any("image/png" in output.get("data", {}) for output in outputs)
