"""Settings of the simulated executor and of the closed loop, read from one YAML file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from graph_schema.errors import ConfigError

DEFAULT_CONFIG = Path(__file__).parent.parent / "configs" / "tau2.yaml"


class ErrorKind(StrEnum):
    """The structural errors the executor makes."""

    SKIPPED_READ = "skipped_read"
    """A read that an argument comes from is not made; the argument is guessed."""
    PREMATURE_WRITE = "premature_write"
    """The write comes before its reads and without the user's yes."""
    REPEATED_FAILED_CALL = "repeated_failed_call"
    """A refused call is made again unchanged, and the step is lost."""
    WRONG_OBJECT = "wrong_object"
    """An argument is taken from another object of the same kind."""


@dataclass(frozen=True)
class Settings:
    """How the executor errs and how it is measured.

    Attributes:
        seed: Base of every random choice; a run's own seed adds domain, task, trial and step.
        rates: Probability, at each gold write, of each kind of error; their sum is at most 1. A drawn error that a
            write gives no occasion for is not made.
        record_trials: Runs per task when recording.
        trials: Runs per task in the closed loop.
        recovery: Probability that the executor looks again and mends its own refused call (never after a repeated
            one); without such runs there would be no repair to learn.
        repeats: How often a refused call is repeated unchanged.
        made_up_share: Share of guesses that are made up instead of taken from another object.
        seen_share: Share of wrong objects taken from what the run has seen, the rest from the whole database.
        notices: Probability that the executor sees that an object is not the one it meant, when the gate has it read
            the object that a wrong argument names. At 0 it believes in the wrong object whatever it reads.
        max_revisions: Most times one call is revised before the executor drops it.
        handover_tool: Called when the gate says Transfer.
        resamples: Bootstrap resamples of an interval.
    """

    seed: int = 0
    rates: dict[ErrorKind, float] = field(default_factory=dict)
    record_trials: int = 3
    trials: int = 4
    recovery: float = 0.3
    repeats: int = 2
    made_up_share: float = 0.5
    seen_share: float = 0.7
    notices: float = 0.0
    max_revisions: int = 3
    handover_tool: str = ""
    resamples: int = 2000

    def __post_init__(self) -> None:
        shares: dict[str, float] = {str(kind): rate for kind, rate in self.rates.items()}
        shares.update({name: getattr(self, name) for name in ("recovery", "made_up_share", "seen_share", "notices")})
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise ConfigError(f"{name} must lie between 0 and 1, not {share}")
        if sum(self.rates.values()) > 1:
            raise ConfigError(f"the error rates add up to {sum(self.rates.values()):.2f}; at most 1 is possible")
        for name in ("record_trials", "trials", "repeats", "resamples"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_revisions < 0:
            raise ConfigError(f"max_revisions must not be negative, not {self.max_revisions}")

    def only(self, *kinds: ErrorKind, rate: float | None = None) -> Settings:
        """The same settings with the other kinds of error switched off.

        Args:
            kinds: Kinds that stay; none for an errorless executor.
            rate: Their probability; the configured one if left out.
        """
        rates = {kind: self.rates.get(kind, 0.0) if rate is None else rate for kind in kinds}
        return replace(self, rates=rates)

    def as_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return {**asdict(self), "rates": {str(kind): rate for kind, rate in self.rates.items()}}


def load_settings(path: Path = DEFAULT_CONFIG, **overrides: Any) -> Settings:
    """Reads settings from YAML; a field that the file leaves out keeps its default.

    Args:
        path: The file.
        overrides: Fields that replace what the file says; None leaves it.

    Raises:
        ConfigError: The file is missing or not YAML, a field is unknown, or a value is out of range.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected one mapping of settings")
    values.update({name: value for name, value in overrides.items() if value is not None})
    unknown = values.keys() - {item.name for item in fields(Settings)}
    if unknown:
        raise ConfigError(f"{path}: unknown settings: {', '.join(sorted(unknown))}")
    try:
        rates = values.get("rates") or {}
        values["rates"] = {ErrorKind(kind): float(rate) for kind, rate in rates.items()}
        return Settings(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: {error}") from error
