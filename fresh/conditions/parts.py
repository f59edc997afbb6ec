"""What conditions share: the values of an argument, the objects they name, and fields of those objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from fresh.history import History
from fresh.values import is_reference, leaves, normalise


class BaseCondition(BaseModel):
    """A condition: plain data, with `holds` and `text`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def argument_values(arguments: dict[str, Any], path: str) -> list[Any]:
    """Scalars of an arguments object at a path as `fresh.values.leaves` writes it."""
    root = path.replace("{", ".").replace("[", ".").split(".", 1)[0]
    if root not in arguments:
        return []
    return [value for where, value in leaves(arguments[root], root) if where == path and value not in (None, "")]


def references(arguments: dict[str, Any], path: str) -> list[Any]:
    """Those values of an argument that name an object."""
    return [value for value in argument_values(arguments, path) if is_reference(path, value)]


def siblings(arguments: dict[str, Any], argument: str, other: str) -> Iterator[tuple[Any, Any]]:
    """Pairs of scalars that stand in the same element of a list, or side by side in the arguments themselves.

    ``people[].name`` and ``people[].born`` give a pair for each person; ``amount`` and ``card_id`` give one.
    """
    root, _, name = argument.rpartition("[].")
    other_root, _, other_name = other.rpartition("[].")
    if root != other_root:
        return
    elements = arguments.get(root) if root else [arguments]
    for element in elements if isinstance(elements, list) else []:
        if isinstance(element, dict) and normalise(element.get(name)) and normalise(element.get(other_name)):
            yield element[name], element[other_name]


def object_via(history: History, name: Any, via: str = "") -> dict[str, Any] | None:
    """The object that an identifier names, or the one that its field ``via`` names; None when not seen."""
    found = history.object_of(name)
    if found is None or not via:
        return found[1] if found else None
    named = found[1].get(via)
    target = history.object_of(named) if is_reference(via, named) else None
    return target[1] if target else None


def at_path(data: dict[str, Any], path: str) -> Any:
    """The value at a path of plain keys, such as ``address.town``; None where there is none."""
    value: Any = data
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def field_of(history: History, name: Any, path: str) -> str | None:
    """Lower-cased scalar at a path of the object that an identifier names; None when not seen."""
    found = history.object_of(name)
    return scalar_text(at_path(found[1], path)) if found is not None else None


def scalar_text(value: Any) -> str | None:
    """A scalar as conditions compare it: ``True`` as ``true``, text and numbers as `normalise` has them."""
    return str(value).lower() if isinstance(value, bool) else normalise(value)


def as_number(text: str) -> float | None:
    """A compared text as a number; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None
