"""Write and read the bytes of items: small pushes in the database, large ones as objects.

A *place* locates the bytes of one item; the item's row stores it. Bytes are written before the
rows that refer to them, so a row never refers to missing bytes. Bytes of a transaction that was
rolled back have no row, and are deleted with their segment.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from django.conf import settings
from isal.isal_zlib import crc32  # 13 times as fast as zlib's

from buffer.items.rules.states import ItemKind
from buffer.items.services import TABLES
from buffer.payloads.services import objects
from buffer.payloads.services.partitions import current_segment
from web.rules.errors import ApiError
from web.sql import cursor, filled, statements_of

SQL: Final = statements_of("buffer")

JSON_CODEC: Final = "json"
MSGPACK_CODEC: Final = "msgpack"

_OF_BATCH: Final = {
    ItemKind.GROUPS: SQL["places_of_groups"],
    ItemKind.FRAGMENTS: SQL["places_of_fragments"],
}
_OF_ITEMS: Final = {
    kind: filled(SQL["places_of_items"], table=table) for kind, table in TABLES.items()
}
_WHOLE: Final = (1 << 31) - 1


class PayloadMissing(ApiError):
    """The bytes of an item are not at the location in its row."""

    status = 410
    code = "payload_missing"
    title = "Payload lost"

    def __init__(self, kind: ItemKind, item_id: int, *, why: str) -> None:
        super().__init__(f"the bytes of item {item_id} ({kind}) are missing: {why}")
        self.kind = kind
        self.item_id = item_id


class PayloadExpired(PayloadMissing):
    """Retention removed the bytes of an item; only its metadata is left."""

    code = "payload_expired"
    title = "Payload deleted by retention"


class PayloadLocation(NamedTuple):
    """Location of an item's bytes; in the payload table if `object` is empty."""

    codec: str
    crc32: int
    segment: int | None
    """None: the item was dropped on arrival, and its bytes were not stored."""
    object: str
    offset: int
    size_bytes: int


NOT_STORED: Final = PayloadLocation("", 0, None, "", 0, 0)
"""Location of items that were dropped on arrival."""


class _Item(NamedTuple):
    item_id: int
    place: PayloadLocation


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The stored bytes of an item, with codec and checksum."""

    codec: str
    content: bytes
    crc32: int
    is_verified: bool = False
    """Whether the bytes are known to match their checksum."""

    def is_intact(self) -> bool:
        return self.is_verified or bool(crc32(self.content) == self.crc32)


def write_contents(contents: Sequence[objects.Part], *, codec: str) -> list[PayloadLocation]:
    """Write the bytes of a large push and return the locations of all its items.

    Locations are in the open segment. A large push is written into one object, which is durable
    when this returns. The bytes of a small push are stored in the database with
    :func:`insert_contents`. The caller stores the locations in the rows of the items.
    """
    places = _locations(contents, codec=codec)
    if name := _object(places):
        objects.write(name, contents)
    return places


def _object(places: list[PayloadLocation]) -> str:
    return places[0].object if places else ""


def _locations(contents: Sequence[objects.Part], *, codec: str) -> list[PayloadLocation]:
    segment = current_segment()
    is_large = sum(map(len, contents)) > settings.ROLLDECK_INLINE_PAYLOAD_BYTES
    name = f"{segment}/{uuid4().hex}" if is_large else ""
    places, offset = [], 0
    for content in contents:
        places.append(PayloadLocation(codec, crc32(content), segment, name, offset, len(content)))
        offset += len(content) if name else 0
    return places


class Writing:
    """A write of the bytes of pushes.

    Rows with the locations must commit after :meth:`wait`. The bytes of small pushes are stored
    in the database with :func:`insert_contents`, in the transaction of the rows.

    Attributes:
        locations: The locations, as returned by :func:`write_contents`.
        is_durable: True if all bytes are written, and nothing is left for the database.
    """

    def __init__(
        self, contents: Sequence[objects.Part], *, codec: str, in_background: bool
    ) -> None:
        """Write the bytes, or start to write them in a thread.

        Raises:
            PayloadStorageDown: If they cannot be written.
        """
        self.locations = _locations(contents, codec=codec)
        self._done: Future[None] | None = None
        name = _object(self.locations)
        if name and in_background:
            self._done = objects.write_in_thread(name, contents)
        elif name:
            objects.write(name, contents)
        self.is_durable = self._done is None and bool(name or not contents)

    def wait(self) -> None:
        """Wait until the bytes are durable.

        Raises:
            PayloadStorageDown: If they cannot be written.
        """
        if self._done is not None:
            self._done.result()

    def discard_written(self) -> None:
        """Remove the written bytes of a refused push, which no row refers to."""
        with suppress(objects.PayloadStorageDown):
            self.wait()
        if name := _object(self.locations):
            objects.remove(name)


class Reading:
    """A read of items' bytes in the background, while the caller uses the database.

    The bytes never change, so they may be read before the transaction that leases the items
    commits.
    """

    def __init__(self, locations: Sequence[PayloadLocation]) -> None:
        """Start the read, unless bytes are in the database."""
        self._done: Future[list[StoredContent] | None] | None = None
        if all(place.object for place in locations):
            self._done = objects.in_read_thread(partial(_read_verified, locations))

    def wait(self) -> list[StoredContent] | None:
        """Return the verified bytes in order; None unless all were read.

        Raises:
            PayloadStorageDown: If the storage is unavailable.
        """
        return None if self._done is None else self._done.result()


def _read_verified(locations: Sequence[PayloadLocation]) -> list[StoredContent] | None:
    found = _read_objects(list(enumerate(locations)), up_to=_WHOLE)
    contents = [
        StoredContent(place.codec, found.get(number, b""), place.crc32)
        for number, place in enumerate(locations)
    ]
    for stored, place in zip(contents, locations, strict=True):
        if len(stored.content) != place.size_bytes:
            return None
    return [replace(stored, is_verified=stored.is_intact()) for stored in contents]


def insert_contents(
    kind: ItemKind, contents: Iterable[tuple[int, PayloadLocation, objects.Part]]
) -> None:
    """Store the bytes of each (item id, location, bytes) whose location is in the database."""
    inline = [
        (place.segment, item_id, content)
        for item_id, place, content in contents
        if not place.object
    ]
    if inline:
        segments, ids, parts = (list(column) for column in zip(*inline, strict=True))
        with cursor() as sql:
            sql.execute(SQL["insert_payloads"], [str(kind), segments, ids, parts], binary=True)


def batch_contents(
    kind: ItemKind, batch_id: UUID, *, positions: range | None = None
) -> list[StoredContent]:
    """Return the stored bytes of a batch's items, or of those at `positions`, in order.

    Raises:
        PayloadMissing: Naming the first item whose bytes are not there.
    """
    first, last = (0, _WHOLE) if positions is None else (positions.start, positions.stop - 1)
    return _read_consistently(kind, _OF_BATCH[kind], batch=batch_id, first=first, last=last)


def latest_group(run_id: int) -> StoredContent | None:
    """Return the newest group of a run that is not waiting.

    Raises:
        PayloadMissing: If its bytes are missing.
    """
    found = _read_consistently(ItemKind.GROUPS, SQL["place_of_latest_group"], key=run_id)
    return found[0] if found else None


def content_head(kind: ItemKind, item_id: int, size_bytes: int) -> bytes:
    """Return the first bytes of an item; empty if its bytes were not stored.

    Raises:
        PayloadMissing: If stored bytes are missing.
        PayloadExpired: If retention removed them.
    """
    items = [
        item for item in _items(_OF_ITEMS[kind], key=[item_id]) if item.place.segment is not None
    ]
    return b"".join(read.content for read in read_contents(kind, items, up_to=size_bytes))


def readable_contents(kind: ItemKind, ids: list[int]) -> dict[int, StoredContent]:
    """Return the contents of items with readable bytes, by id."""
    items = _items(_OF_ITEMS[kind], key=ids)
    try:
        found = read_contents(kind, items)
    except PayloadMissing:
        readable = {}
        for item in items:
            with suppress(PayloadMissing):
                (readable[item.item_id],) = read_contents(kind, [item])
        return readable
    return {item.item_id: stored for item, stored in zip(items, found, strict=True)}


def _read_consistently(kind: ItemKind, query: str, **key: Any) -> list[StoredContent]:
    """Read the items of a query; retry if retention moved their bytes in between."""
    items = _items(query, **key)
    try:
        return read_contents(kind, items)
    except PayloadMissing:
        moved = _items(query, **key)
        if moved == items:
            raise
    return read_contents(kind, moved)


def _items(query: str, **key: Any) -> list[_Item]:
    with cursor() as sql:
        rows = sql.execute(query, key, binary=True, prepare=True).fetchall()
    return [_Item(row[0], PayloadLocation(*row[1:7])) for row in rows]


def read_contents(
    kind: ItemKind, items: Sequence[tuple[int, PayloadLocation]], *, up_to: int = _WHOLE
) -> list[StoredContent]:
    """Return the bytes of each (item id, location), in order, truncated to `up_to` bytes.

    Raises:
        PayloadMissing: Naming the first item whose bytes are not there.
    """
    found = _read_inline(kind, items, up_to=up_to) | _read_objects(items, up_to=up_to)
    contents = []
    for item_id, place in items:
        content = found.get(item_id)
        if content is None or len(content) != min(place.size_bytes, up_to):
            raise _missing(kind, item_id, place, content)
        contents.append(StoredContent(place.codec, content, place.crc32))
    return contents


def _missing(
    kind: ItemKind, item_id: int, place: PayloadLocation, content: bytes | None
) -> PayloadMissing:
    if place.segment is None:
        return PayloadMissing(kind, item_id, why="they were not stored")
    with cursor() as sql:
        if sql.execute(SQL["is_segment_dropped"], [place.segment]).fetchone() is not None:
            return PayloadExpired(kind, item_id, why="retention removed them")
    where = place.object or f"segment {place.segment}"
    if content is None:
        if place.object:
            where = f"the payload storage of this server has no object {where}"
            return PayloadMissing(kind, item_id, why=where)
        return PayloadMissing(kind, item_id, why=f"not in {where}")
    return PayloadMissing(
        kind, item_id, why=f"{where} has {len(content)} of {place.size_bytes} bytes"
    )


def _read_inline(
    kind: ItemKind, items: Sequence[tuple[int, PayloadLocation]], *, up_to: int
) -> dict[int, bytes]:
    inline = [(item_id, place.segment) for item_id, place in items if not place.object]
    if not inline:
        return {}
    ids = [item_id for item_id, _ in inline]
    segments = sorted({segment for _, segment in inline if segment is not None})
    with cursor() as sql:
        # Not prepared: a generic plan would lock every partition.
        rows = sql.execute(
            SQL["read_payloads"], [up_to, str(kind), segments, ids], binary=True, prepare=False
        )
        return dict(rows.fetchall())


def _read_objects(items: Sequence[tuple[int, PayloadLocation]], *, up_to: int) -> dict[int, bytes]:
    by_object: dict[str, list[tuple[int, PayloadLocation]]] = defaultdict(list)
    for item_id, place in items:
        if place.object:
            by_object[place.object].append((item_id, place))
    parts = objects.read(
        {
            name: [(place.offset, min(place.size_bytes, up_to)) for _, place in inside]
            for name, inside in by_object.items()
        }
    )
    return {
        item_id: part
        for name, found in parts.items()
        for (item_id, _), part in zip(by_object[name], found, strict=True)
    }
