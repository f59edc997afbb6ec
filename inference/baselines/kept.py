"""What memories built from the same runs share, so that it is made once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Kept(Generic[_Value]):
    """The latest few values by key.

    Args:
        size: How many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Hashable, _Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """The value of a key; made, and the one used longest ago dropped, if it is not kept."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            self._values[key] = make()
            if len(self._values) > self._size:
                self._values.popitem(last=False)
        return self._values[key]
