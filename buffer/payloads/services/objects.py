"""Access to the object storage of the settings."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Final, Protocol, TypeVar, cast

from django.core.files.storage import storages
from django.db import connection

from web.rules.errors import Unavailable

T = TypeVar("T")
WRITERS: Final = 8
READERS: Final = 8
Ranges = Sequence[tuple[int, int]]
"""Parts of one object as (offset, size) in bytes."""
Part = bytes | memoryview


class PayloadStorageDown(Unavailable):
    """The payload storage is unavailable; nothing was stored."""

    code = "storage_down"
    title = "Payload storage unavailable"
    retry_after_seconds = 5


class PayloadStorage(Protocol):
    """Interface that a Django storage for payloads must implement.

    An attribute `reads_at_once` sets the number of objects read concurrently.
    """

    def write_parts(self, name: str, parts: Sequence[Part]) -> None:
        """Write a new object from its parts; it is durable on return.

        Raises:
            OSError: If it cannot be written.
        """

    def read_ranges(self, name: str, ranges: Ranges) -> list[bytes]:
        """Return the bytes at each (offset, size), cut at the end of the object.

        Raises:
            FileNotFoundError: If the object does not exist.
            OSError: If it cannot be read at the moment.
        """

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""

    def remove_folder(self, name: str) -> None:
        """Remove all objects whose names begin with ``name/``, if any."""


def _storage() -> PayloadStorage:
    return cast(PayloadStorage, storages["payloads"])


def write(name: str, parts: Sequence[Part]) -> None:
    """Write a new object from its parts; it is durable on return.

    Raises:
        PayloadStorageDown: If it cannot be written.
    """
    try:
        _storage().write_parts(name, parts)
    except OSError as error:
        raise PayloadStorageDown(f"cannot write to the payload storage: {error}") from error


def write_in_thread(name: str, parts: Sequence[Part]) -> "Future[None]":
    """Write a new object in a separate thread; I/O does not hold Python's global lock.

    The future completes when :func:`write` would return, or raises :class:`PayloadStorageDown`.
    """
    return _threads("payload-writes", WRITERS).submit(_released, partial(write, name, parts))


def _released(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        # A storage may use the database; close the connection of this thread.
        connection.close()


def remove(name: str) -> None:
    """Remove an object that no row refers to; if this fails, it is removed with its segment."""
    with suppress(Exception):
        _storage().delete(name)


def delete(name: str) -> None:
    """Remove an object, if it exists.

    Raises:
        PayloadStorageDown: If the storage is unavailable.
    """
    try:
        _storage().delete(name)
    except Exception as error:  # storages raise exceptions of their own
        raise PayloadStorageDown(f"cannot remove {name} of the payload storage: {error}") from error


def read(ranges_by_key: Mapping[str, Ranges]) -> dict[str, list[bytes]]:
    """Return the bytes at each (offset, size) of objects; missing objects are omitted.

    Raises:
        PayloadStorageDown: If the storage is unavailable.
    """
    storage = _storage()
    at_once = getattr(storage, "reads_at_once", 1)
    if at_once == 1 or len(ranges_by_key) == 1:
        found = [_read(storage, name, ranges) for name, ranges in ranges_by_key.items()]
    else:
        names, spans = ranges_by_key.keys(), ranges_by_key.values()
        found = list(_threads("payloads", at_once).map(partial(_read, storage), names, spans))
    return {
        name: parts for name, parts in zip(ranges_by_key, found, strict=True) if parts is not None
    }


def in_read_thread(read: Callable[[], T]) -> "Future[T]":
    """Start `read` in a separate thread; I/O does not hold Python's global lock."""
    return _threads("payload-reads", READERS).submit(_released, read)


def _read(storage: PayloadStorage, name: str, ranges: Ranges) -> list[bytes] | None:
    try:
        return storage.read_ranges(name, ranges)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PayloadStorageDown(f"cannot read from the payload storage: {error}") from error


@cache
def _threads(name: str, count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix=name)


def remove_folder(name: str) -> None:
    """Remove all objects whose names begin with ``name/``."""
    _storage().remove_folder(name)
