from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_desk import GARDEN, LIBRARY, Fresh, Result

from fresh import cli


@pytest.fixture
def fresh(capsys: pytest.CaptureFixture[str]) -> Fresh:
    def run(*args: str | Path) -> Result:
        capsys.readouterr()
        try:
            cli.main([str(arg) for arg in args])
            status: Any = 0
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "memory"
    with pytest.raises(SystemExit) as stop:
        cli.main(["mine", str(GARDEN), str(LIBRARY), "-o", str(path), "--encoder", "hashed"])
    assert not stop.value.code
    return path
