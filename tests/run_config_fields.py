"""The fields of a run configuration, with invalid values, from its own types."""

from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from runs.config.rules.language_config import LanguageConfig, LessonConfig
from runs.config.rules.run_config import RunConfig

LESSON = "reverse"


def wrong_values(*, is_language: bool) -> dict[str, Any]:
    """Return a configuration in which every field has a value of the wrong type."""
    raw = _wrong(RunConfig)
    if is_language:
        raw["language"] = _wrong(LanguageConfig) | {"lessons": {LESSON: _wrong(LessonConfig)}}
    return raw


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return the path and the value of each field that is not an object."""
    if not isinstance(value, dict):
        yield path, value
        return
    for name, item in value.items():
        yield from leaves(item, f"{path}.{name}" if path else name)


def _wrong(kind: type[Struct]) -> dict[str, Any]:
    """Return a list of lists for each field: no field accepts one."""
    hints = get_type_hints(kind)
    return {
        field.name: _wrong(hints[field.name]) if _is_struct(hints[field.name]) else [[]]
        for field in msgspec.structs.fields(kind)
    }


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)
