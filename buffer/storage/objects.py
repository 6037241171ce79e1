"""Reach the storage of objects that the settings name."""

from collections.abc import Sequence
from typing import Protocol, cast

from django.core.files.storage import storages


class PayloadStorage(Protocol):
    """What a Django storage must also offer to hold payloads."""

    def write_parts(self, name: str, parts: Sequence[bytes]) -> None:
        """Write a new object from its parts; it is safe from a crash when this returns."""

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes at each (offset, size); what lies behind the end is left out.

        Raises:
            FileNotFoundError: If there is no such object.
        """

    def remove_folder(self, name: str) -> None:
        """Remove all objects whose names begin with ``name/``; there may be none."""


def _storage() -> PayloadStorage:
    return cast(PayloadStorage, storages["payloads"])


def write(name: str, parts: Sequence[bytes]) -> None:
    """Write a new object from its parts; it is safe from a crash when this returns."""
    _storage().write_parts(name, parts)


def read(name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the bytes at each (offset, size) of an object.

    Raises:
        FileNotFoundError: If there is no such object.
    """
    return _storage().read_ranges(name, ranges)


def remove_folder(name: str) -> None:
    """Remove all objects whose names begin with ``name/``."""
    _storage().remove_folder(name)
