"""Every error FRESH raises for a user's mistake or a damaged input.

The tree::

    FreshError
    ├── TraceError        a trace cannot be read        (file, record)
    ├── SchemaError       a graph breaks its own rules   (edge triple, feature width)
    ├── MemoryFileError   a memory folder is missing, damaged or too new
    ├── ConfigError       an option or a settings file is wrong
    ├── FrozenMemoryError a frozen memory was asked to change
    ├── EvaluatorError    an external evaluator (an LLM endpoint) failed for good
    └── MissingExtraError an optional dependency is not installed

Each message says what is wrong, where, and what to do. The command line prints the message alone and exits
with status 2; a traceback means a fault in FRESH itself.
"""

from __future__ import annotations


class FreshError(Exception):
    """Base of every error a user can cause or mend."""


class TraceError(FreshError):
    """A trace file or one of its records cannot be read."""


class SchemaError(FreshError):
    """A graph, or what was asked of it, breaks the schema."""


class MemoryFileError(FreshError):
    """A memory folder is missing, damaged, or of a format this version cannot read."""


class ConfigError(FreshError):
    """An option, a settings file or an argument is wrong."""


class FrozenMemoryError(FreshError):
    """A frozen memory was asked to change."""


class EvaluatorError(FreshError):
    """An external evaluator or summariser failed for good."""


class MissingExtraError(FreshError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str) -> None:
        checkout = f"in a checkout: pip install -e '.[{extra}]'"
        super().__init__(f"{package} is not installed: pip install 'fresh-memory[{extra}]' ({checkout})")
