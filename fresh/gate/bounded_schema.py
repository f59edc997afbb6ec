"""A JSON Schema validator whose time is bounded and that asks nobody.

Schemas come from tool servers and values from models. A regular expression that backtracks would let one argument stall
the gate, and a remote ``$ref`` would be fetched. Here all patterns of one validation share a budget of time, and
references lead nowhere outside the schema.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

PATTERN_SECONDS = 0.1
"""What all pattern matches of one validation may take together: a thousand times what honest ones take, so that a busy
machine refuses nothing."""
MAX_ERRORS = 20
_budget = threading.local()


def schema_errors(schema: Any, arguments: dict[str, Any]) -> list[ValidationError]:
    """What a schema refuses in an arguments object, the first few.

    A value whose pattern cannot be matched in time counts as one that does not match.

    Raises:
        Exception: The schema itself is wrong; jsonschema has a different error for each way.
    """
    validator = _validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))
    _budget.left = PATTERN_SECONDS
    return list(islice(validator.iter_errors(arguments), MAX_ERRORS))


@lru_cache(maxsize=1024)
def _validator(schema: bytes) -> Validator:
    import jsonschema
    import referencing

    data = orjson.loads(schema)
    dialect = jsonschema.validators.validator_for(data, default=jsonschema.Draft202012Validator)
    dialect.check_schema(data)
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unchecked,  # jsonschema matches names for it without a bound
    }
    bounded = jsonschema.validators.extend(dialect, {k: v for k, v in keywords.items() if k in dialect.VALIDATORS})
    return bounded(data, registry=referencing.Registry())


def _search(pattern: Any, text: str) -> bool:
    """Whether a pattern matches anywhere in a text, within what is left of the budget."""
    left = getattr(_budget, "left", PATTERN_SECONDS)
    if left <= 0:
        return False
    compiled = _compiled(str(pattern))
    started = time.perf_counter()
    try:
        return compiled.search(text, timeout=left) is not None
    except TimeoutError:
        return False
    finally:
        _budget.left = left - (time.perf_counter() - started)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    import jsonschema

    if validator.is_type(value, "string") and not _search(pattern, value):
        yield jsonschema.ValidationError(f"does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, item in value.items():
            if _search(pattern, name):
                yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    import jsonschema

    if not validator.is_type(value, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [n for n in value if n not in known and not any(_search(pattern, n) for pattern in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(value[name], allowed, path=name)
    elif not allowed and extras:
        yield jsonschema.ValidationError(f"does not take {', '.join(extras)}")


def _unchecked(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    return iter(())
