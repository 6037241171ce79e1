"""Read typed values from the environment and fail loudly."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


class InvalidSetting(ValueError):
    """An environment variable holds something that it cannot mean."""


def text(name: str, default: str = "") -> str:
    """Return the variable, or the content of the file that ``<name>_FILE`` names."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        return Path(path).read_text(encoding="utf-8").strip()
    return os.environ.get(name, default)


def choice(name: str, default: str, *, of: Iterable[str]) -> str:
    """Return one of a few words.

    Raises:
        InvalidSetting: If it is another word.
    """
    value = text(name, default)
    allowed = tuple(of)
    if value not in allowed:
        raise InvalidSetting(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
    return value


def integer(name: str, default: int, *, at_least: int = 0, at_most: int | None = None) -> int:
    """Return a whole number.

    Raises:
        InvalidSetting: If it is no number or out of range.
    """
    raw = text(name, str(default))
    try:
        value = int(raw)
    except ValueError:
        raise InvalidSetting(f"{name} is {raw!r}; it must be a whole number") from None
    if value < at_least or (at_most is not None and value > at_most):
        limits = f"at least {at_least}" + ("" if at_most is None else f" and at most {at_most}")
        raise InvalidSetting(f"{name} is {value}; it must be {limits}")
    return value


def flag(name: str, *, default: bool = False) -> bool:
    """Return whether the variable says yes.

    Raises:
        InvalidSetting: If it says neither yes nor no.
    """
    raw = text(name, "1" if default else "0").lower()
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off", ""}:
        return False
    raise InvalidSetting(f"{name} is {raw!r}; it must be 1 or 0")


def words(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def folder(name: str, default: Path) -> Path:
    """Return a folder that this process may write into; it is made if there is none.

    Raises:
        InvalidSetting: With the path and the reason, if it cannot be used.
    """
    path = Path(text(name, str(default))).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InvalidSetting(
            f"{name} is {path}, which cannot be written to: {error.strerror or error}. Set {name} "
            "to a folder that this user may write to, on a disk with free space"
        ) from error
    return path
