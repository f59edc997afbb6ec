"""``lightning fit --config ...``, the same as ``python -m training fit --config ...``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Entry of the console script; returns nothing, since scripts exit with what their entry returns."""
    from graph_schema.errors import FreshError, MissingExtraError

    try:
        _run(args)
    except MissingExtraError as error:
        sys.exit(f"fresh: {error}")
    except FreshError as error:
        print(f"fresh: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _run(args: Sequence[str] | None) -> None:
    from graph_schema.errors import ConfigError

    try:
        import jsonargparse  # noqa: F401  Lightning's own message without it says nothing of what to install

        from training.cli import run
    except ImportError as error:
        message = f"training needs a package that is not installed ({error}): pip install fresh-memory"
        raise ConfigError(message) from error
    run(args)


if __name__ == "__main__":
    main()
