"""What a reading run reports beside the trajectories."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record, or a whole file, that could not be read.

    Attributes:
        file: The file's path.
        position: ``line 12`` or ``record 3``; empty for the whole file.
        reason: Why, in one line.
    """

    file: str
    position: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}, {self.position}" if self.position else self.file
        return f"{where}: {self.reason}"


@dataclass(slots=True)
class ReadReport:
    """Counts of one reading run.

    Attributes:
        files: Runs read, by file, in reading order.
        formats: Runs read, by format.
        records: Runs read.
        skipped: What could not be read.
        repairs: How many runs needed each kind of repair; ``truncated_last_line`` and
            ``truncated_file`` count files, and so does what was mended while streaming an array, where the run that a
            bad character belongs to is not known.
        attacked: Runs under attack that were left out.
        not_traces: Files met in a folder that hold no runs.
    """

    files: dict[str, int] = field(default_factory=dict)
    formats: Counter[str] = field(default_factory=Counter)
    records: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    repairs: Counter[str] = field(default_factory=Counter)
    attacked: int = 0
    not_traces: list[str] = field(default_factory=list)

    def add(self, other: ReadReport) -> None:
        """Adds the report of another part of the same run."""
        for file, count in other.files.items():
            self.files[file] = self.files.get(file, 0) + count
        self.formats.update(other.formats)
        self.records += other.records
        self.skipped.extend(other.skipped)
        self.repairs.update(other.repairs)
        self.attacked += other.attacked
        self.not_traces.extend(other.not_traces)
