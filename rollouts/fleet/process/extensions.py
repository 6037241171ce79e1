"""Import code that an administrator has registered on this machine.

A kind names a class or function:

- ``module:<import.path>:<Name>``, listed in the variable of its extension point;
- ``package:<name>``, an entry point of an installed package.
"""

import importlib
import os
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from runs.config.rules.extensions import ExtensionPoint


class ExtensionFailed(ValueError):
    """Registered code cannot be used."""

    def __init__(self, field: str, message: str, *, is_missing: bool = False) -> None:
        """Describe the failure of a field, a dotted path in the configuration.

        `is_missing` tells whether the code is absent on this machine; other machines may have it.
        """
        self.field = field
        self.message = message
        self.is_missing = is_missing
        super().__init__(f"{field}: {message}")


def build(
    point: ExtensionPoint, field: str, kind: str, kwargs: Mapping[str, Any], *arguments: Any
) -> Any:
    """Return what the class or function of `kind` returns for these arguments.

    Raises:
        ExtensionFailed: If it is not registered on this machine, cannot be imported, or raises.
    """
    factory = load(point, field, kind)
    try:
        return factory(*arguments, **kwargs)
    except Exception as error:
        raise raised(field, kind, error) from error


def raised(field: str, kind: str, error: Exception) -> ExtensionFailed:
    """Return the error for an exception in registered code."""
    return ExtensionFailed(field, f"{kind} raised {_text(error)}")


def load(point: ExtensionPoint, field: str, kind: str) -> Callable[..., Any]:
    """Return the class or function of `kind`.

    Raises:
        ExtensionFailed: If it is not registered on this machine or cannot be imported.
    """
    source, _, name = kind.partition(":")
    machine = socket.gethostname()
    if source == "package":
        found = [one for one in entry_points(group=point.entry_points) if one.name == name]
        if not found:
            message = f"no package on {machine} has an entry point {name!r}"
            raise ExtensionFailed(field, message, is_missing=True)
        return _imported(field, kind, found[0].load)
    if kind not in {one.strip() for one in os.environ.get(point.setting, "").split(",")}:
        message = (
            f"{kind} is not registered on {machine}: "
            f"an administrator must add it to {point.setting}"
        )
        raise ExtensionFailed(field, message, is_missing=True)
    path, _, attribute = name.partition(":")
    return _imported(field, kind, lambda: getattr(importlib.import_module(path), attribute))


def _imported(field: str, kind: str, read: Callable[[], Any]) -> Callable[..., Any]:
    try:
        found = read()
    except Exception as error:
        message = f"{kind} cannot be imported: {_text(error)}"
        is_missing = isinstance(error, ImportError)
        raise ExtensionFailed(field, message, is_missing=is_missing) from error
    if not callable(found):
        raise ExtensionFailed(field, f"{kind} is not callable")
    factory: Callable[..., Any] = found
    return factory


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
