"""Typed values from environment variables, with errors for invalid ones."""

import ipaddress
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


class InvalidSetting(ValueError):
    """An environment variable has an invalid value."""


def text(name: str, default: str = "") -> str:
    """Return the variable, or the content of the file named by ``<name>_FILE``.

    Raises:
        InvalidSetting: If the file cannot be read.
    """
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return os.environ.get(name, default)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidSetting(f"{name}_FILE is {path!r}, which cannot be read: {reason}") from None


def choice(name: str, default: str, *, of: Iterable[str]) -> str:
    """Return one of the allowed values.

    Raises:
        InvalidSetting: If the value is not allowed.
    """
    value = text(name, default)
    allowed = tuple(of)
    if value not in allowed:
        raise InvalidSetting(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
    return value


def integer(name: str, default: int, *, at_least: int = 0, at_most: int | None = None) -> int:
    """Return an integer.

    Raises:
        InvalidSetting: If it is not a number or out of range.
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
    """Return a boolean.

    Raises:
        InvalidSetting: If the value is neither yes nor no.
    """
    raw = text(name, "1" if default else "0").lower()
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off", ""}:
        return False
    raise InvalidSetting(f"{name} is {raw!r}; it must be 1 or 0")


def word_list(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str) -> list[str]:
    """Return a comma-separated list of IP addresses and networks.

    Raises:
        InvalidSetting: If a part is neither.
    """
    found = word_list(name)
    for word in found:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            raise InvalidSetting(
                f"{name}: {word!r} is neither an IP address nor a network such as 10.0.0.0/8"
            ) from None
    return found


def folder(name: str, default: Path) -> Path:
    """Return a folder that this process may write to; creates it if missing.

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
