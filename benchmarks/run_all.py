"""Runs every benchmark of this folder, one after the other, and keeps what they print.

python benchmarks/run_all.py [FILE]     FILE is docs/results/benchmarks.txt by default
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DEFAULT = FOLDER.parent / "docs" / "results" / "benchmarks.txt"


def main(target: Path) -> int:
    """Returns the number of benchmarks that failed; the file is written only if none did."""
    printed, failed = [], 0
    for script in sorted(FOLDER.glob("bench_*.py")):
        print(f"== {script.name}", flush=True)
        environment = os.environ | {"COLUMNS": "110"}
        run = subprocess.run(
            [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False, env=environment
        )
        print(run.stdout, flush=True)
        printed.append(run.stdout.rstrip())
        failed += run.returncode != 0
    if not failed:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.write_text("\n\n".join(printed) + "\n", encoding="utf-8")
        part.replace(target)
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT))
