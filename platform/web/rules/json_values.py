"""Detection of JSON values that PostgreSQL cannot store."""

import math


class NotStorable(ValueError):
    """A value cannot be stored; `field` is its path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


MAX_DEPTH = 32


def check(value: object, *, path: str = "", depth: int = 0) -> None:
    """Check that PostgreSQL can store decoded JSON and return it unchanged.

    Raises:
        NotStorable: At the first non-finite number, text with a NUL character or a lone surrogate,
            or nesting below :data:`MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        raise NotStorable(path, f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotStorable(path, "must be a finite number")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, path)
            check(item, path=f"{path}.{key}" if path else key, depth=depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check(item, path=f"{path}[{index}]", depth=depth + 1)


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise NotStorable(path, "must not contain the NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotStorable(path, "must not contain lone surrogates")
