"""The command line, ``fresh``: one module a group of commands, and what they share.

This is the one part of the package that knows `training` and `inference`.
"""

from fresh.cli.commands import app, main

__all__ = ["app", "main"]
