"""``python -m fresh.cli``."""

from fresh.cli import main

main()
