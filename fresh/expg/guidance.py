"""What ExpG knows of a tool, ready to be given to an agent and to be written as plain JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from graph_schema.errors import ConfigError, MemoryFileError

FORMAT_VERSION = 1
BEST_PRACTICE_WORDS = 200
"""Most words of best practices (arXiv 2608.03403)."""


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Advice(_Plain):
    """The words of a guidance, as a summariser writes them."""

    core_function: str
    success_patterns: tuple[str, ...] = ()
    common_issues: tuple[str, ...] = ()
    best_practices: str = ""

    @field_validator("best_practices")
    @classmethod
    def _short(cls, text: str) -> str:
        return shorten(text)


class Constraint(_Plain):
    """What stable guidance writes into a tool's schema.

    Attributes:
        text: What calls must keep to, with the counts behind it.
        parameters: A note for each parameter concerned.
        required: Parameters that the schema leaves optional and that calls failed without.
        patterns: Form of a parameter's identifiers, as a regular expression.
    """

    text: str
    parameters: dict[str, str] = {}
    required: tuple[str, ...] = ()
    patterns: dict[str, str] = {}


class ToolGuidance(_Plain):
    """Guidance for one tool.

    Attributes:
        tool: Name of the tool.
        advice: Core function, success patterns, common issues and best practices.
        experiences: How many experiences stand behind it, after the filter.
        selected: How many of them the summariser read.
        classes: K.
        quota: Q.
        success_rate: Share of answers that were no error.
        mean_score: Mean over experiences and aspects, 0 to 1.
        mean_seconds: Mean time of a call; None when no trace recorded it.
        mean_tokens: Mean tokens of a call; None when no trace recorded it.
        stable: Whether it goes into the schema (stable) or into the description (dynamic).
        constraint: For the schema; None for dynamic guidance.
    """

    tool: str
    advice: Advice
    experiences: int
    selected: int
    classes: int
    quota: int
    success_rate: float
    mean_score: float
    mean_seconds: float | None = None
    mean_tokens: float | None = None
    stable: bool = False
    constraint: Constraint | None = None


def save_guidance(path: Path | str, guidance: Mapping[str, ToolGuidance]) -> None:
    """Writes guidance as JSON, tools in alphabetical order; an old file stays until the new one is whole."""
    target = Path(path)
    tools = {name: guidance[name].model_dump(mode="json") for name in sorted(guidance)}
    text = json.dumps({"format": "fresh-guidance", "version": FORMAT_VERSION, "tools": tools}, indent=2)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def load_guidance(path: Path | str) -> dict[str, ToolGuidance]:
    """Reads what :func:`save_guidance` wrote.

    Raises:
        MemoryFileError: The file is missing, damaged, something else, or of a newer format.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        version = record["version"] if record["format"] == "fresh-guidance" else None
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise MemoryFileError(
                f"{path} has format {version}, this version reads up to {FORMAT_VERSION}: upgrade fresh-memory"
            )
        if version is not None:
            return {name: ToolGuidance.model_validate(value) for name, value in record["tools"].items()}
    except OSError as error:
        raise MemoryFileError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        pass
    raise MemoryFileError(f"{path} is no guidance file: write one with 'fresh expg distil STORE -o FILE'")


def shorten(text: str, words: int = BEST_PRACTICE_WORDS) -> str:
    """At most so many words, cut after a whole sentence where there is one."""
    if len(text.split()) <= words:
        return text
    kept: list[str] = []
    for sentence in text.replace("\n", " \n").split(". "):
        if sum(len(s.split()) for s in kept) + len(sentence.split()) > words:
            break
        kept.append(sentence)
    if not kept:
        return " ".join(text.split()[:words])
    return ". ".join(kept).rstrip(". \n") + "."
