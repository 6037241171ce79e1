"""Reach the storage of objects that the settings name."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Final, Protocol, cast

from django.core.files.storage import storages
from django.db import connection

WRITERS: Final = 8
Ranges = Sequence[tuple[int, int]]
"""(offset, size) of parts of one object, in bytes."""


class PayloadStorageDown(Exception):
    """The storage of payloads does not take or give bytes now; nothing was stored."""

    retry_after_seconds = 5


class PayloadStorage(Protocol):
    """What a Django storage must also offer to hold payloads.

    One that has `reads_at_once` is asked for so many objects at the same time.
    """

    def write_parts(self, name: str, parts: Sequence[bytes]) -> None:
        """Write a new object from its parts; it is safe from a crash when this returns.

        Raises:
            OSError: If it cannot be written.
        """

    def read_ranges(self, name: str, ranges: Ranges) -> list[bytes]:
        """Return the bytes at each (offset, size); what lies behind the end is left out.

        Raises:
            FileNotFoundError: If there is no such object.
            OSError: If it cannot be read now.
        """

    def delete(self, name: str) -> None:
        """Remove an object; it may not be there."""

    def remove_folder(self, name: str) -> None:
        """Remove all objects whose names begin with ``name/``; there may be none."""


def _storage() -> PayloadStorage:
    return cast(PayloadStorage, storages["payloads"])


def write(name: str, parts: Sequence[bytes]) -> None:
    """Write a new object from its parts; it is safe from a crash when this returns.

    Raises:
        PayloadStorageDown: If it cannot be written.
    """
    try:
        _storage().write_parts(name, parts)
    except OSError as error:
        raise PayloadStorageDown(f"payloads cannot be written now: {error}") from error


def write_meanwhile(name: str, parts: Sequence[bytes]) -> "Future[None]":
    """Write a new object in a thread of its own: disks and kernels need no Python for it.

    The future is done, or raises :class:`PayloadStorageDown`, when :func:`write` would return.
    """
    return _writers().submit(_write_and_let_go, name, parts)


def _write_and_let_go(name: str, parts: Sequence[bytes]) -> None:
    try:
        write(name, parts)
    finally:
        # Of a storage that asks the database; nobody else ends a connection of this thread.
        connection.close()


def remove(name: str) -> None:
    """Remove an object that no row names; should it stay, it goes with its segment."""
    with suppress(Exception):
        _storage().delete(name)


def read(wanted: Mapping[str, Ranges]) -> dict[str, list[bytes]]:
    """Return the bytes at each (offset, size) of objects; one that is not there is left out.

    Raises:
        PayloadStorageDown: If the storage does not answer.
    """
    storage = _storage()
    at_once = getattr(storage, "reads_at_once", 1)
    if at_once == 1 or len(wanted) == 1:
        found = [_read(storage, name, ranges) for name, ranges in wanted.items()]
    else:
        names, spans = wanted.keys(), wanted.values()
        found = list(_readers(at_once).map(partial(_read, storage), names, spans))
    return {name: parts for name, parts in zip(wanted, found, strict=True) if parts is not None}


def _read(storage: PayloadStorage, name: str, ranges: Ranges) -> list[bytes] | None:
    try:
        return storage.read_ranges(name, ranges)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PayloadStorageDown(f"payloads cannot be read now: {error}") from error


@cache
def _writers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WRITERS, thread_name_prefix="payload-writes")


@cache
def _readers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="payloads")


def remove_folder(name: str) -> None:
    """Remove all objects whose names begin with ``name/``."""
    _storage().remove_folder(name)
