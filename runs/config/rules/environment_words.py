"""Search terms of a run's environments."""

from collections.abc import Iterable
from typing import Any

LONGEST_WORD = 220


def search_terms(names: Iterable[str]) -> list[str]:
    """Return the names in lower case, each with and without the part before its colon."""
    whole = {name.lower() for name in names if name}
    parts = {name.rpartition(":")[2] for name in whole}
    return sorted(word[:LONGEST_WORD] for word in whole | parts if word)


def specs_in(config: dict[str, Any]) -> list[str]:
    """Return the environments of a run configuration: its own, or those of its lessons."""
    language = config.get("language")
    if not language:
        return [str(config.get("environment", {}).get("spec", ""))]
    return [str(lesson.get("spec", "")) for lesson in language.get("lessons", {}).values()]


def names_in(config: dict[str, Any]) -> list[str]:
    """Return the environments of a run configuration, preceded by the names of its lessons."""
    language = config.get("language") or {}
    return [*language.get("lessons", {}), *specs_in(config)]
