"""Keep the bytes of items: small pushes in the database, large ones as objects beside it.

A *place* says where the bytes of one item are; it lies in the item's row. Bytes are written
first and rows name them afterwards, so a row never points at nothing; bytes whose transaction
was rolled back are named by no row and go with their segment.
"""

from buffer.storage.contents import (
    JSON_CODEC,
    MSGPACK_CODEC,
    NOT_KEPT,
    TABLES,
    PayloadExpired,
    PayloadMissing,
    Place,
    StoredContent,
    Writing,
    batch_contents,
    content_head,
    insert_contents,
    latest_group,
    read_contents,
    readable_contents,
    write_contents,
)
from buffer.storage.database import cursor
from buffer.storage.objects import PayloadStorageDown
from buffer.storage.segments import (
    current_segment,
    forget_current_segment,
    make_partition,
    open_segment,
    remove_segment,
)

__all__ = [
    "JSON_CODEC",
    "MSGPACK_CODEC",
    "NOT_KEPT",
    "TABLES",
    "PayloadExpired",
    "PayloadMissing",
    "PayloadStorageDown",
    "Place",
    "StoredContent",
    "Writing",
    "batch_contents",
    "content_head",
    "current_segment",
    "cursor",
    "forget_current_segment",
    "insert_contents",
    "latest_group",
    "make_partition",
    "open_segment",
    "read_contents",
    "readable_contents",
    "remove_segment",
    "write_contents",
]
