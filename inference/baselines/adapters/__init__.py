"""Published packages behind the interface of this package's own memories.

Each is given the same items, keeps and finds them as it does, and what it finds is shown in the same words; so what is
compared is the package's memory, not its prompt. None is installed with the project: see ``docs/baselines.md``.
"""
