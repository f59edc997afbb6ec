"""Prompts, one Markdown file each; ``{name}`` marks where a value goes."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files


@lru_cache
def load_prompt(name: str) -> str:
    """The text of ``name.md``."""
    return (files(__package__) / f"{name}.md").read_text(encoding="utf-8")


def fill(name: str, **values: str) -> str:
    """A prompt with its marks replaced; braces inside values stay as they are."""
    return re.sub(r"\{([a-z_]+)\}", lambda mark: values.get(mark.group(1), mark.group()), load_prompt(name))
