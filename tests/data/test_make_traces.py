from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def test_the_committed_traces_are_what_the_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    sys.modules.pop("make_traces", None)
    import make_traces

    for name in ("desks", "dirty"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(make_traces, "FOLDER", tmp_path)
    make_traces.main()
    written = sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*.jsonl"))
    assert [str(path) for path in written] == ["desks/garden.jsonl", "desks/library.jsonl", "dirty/desks.jsonl"]
    for path in written:
        assert (tmp_path / path).read_bytes() == (FOLDER / path).read_bytes()
