"""A bad file is named and stores nothing; a failed export leaves none."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from buffer.archive.queries import ArchiveUnreadable
from buffer.archive.services.export import export_run
from buffer.archive.services.restore import WrongRunForArchive
from buffer.ingest.schemas.pushes_msgpack import decode_fragments
from buffer.ingest.services.pushes import accept_fragments
from buffer.items.models import FragmentChunk, TrajectoryGroup
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_trainer
from tests.buffer_factories import fragment, push
from tests.factories import NOON, make_run
from tests.integration.buffer.archive_files import (
    EVERYTHING,
    export,
    make_words,
    push_groups,
    restore,
    train,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_words()


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "cut":
        path.write_bytes(content[:-20])
    elif how == "a page":
        columns = pq.ParquetFile(path).metadata.row_group(0)
        payloads = columns.column(columns.num_columns - 1)
        assert payloads.path_in_schema == "payload"
        content[payloads.data_page_offset + payloads.total_compressed_size // 2] ^= 0xFF
        path.write_bytes(content)
    elif how == "text":
        path.write_text("item_id,payload\n")
    else:
        table = pq.read_table(path)
        path.unlink()
        pq.write_table(CHANGES[how](table), path)


def _payload(table: pa.Table, content: bytes) -> pa.Table:
    from isal.isal_zlib import crc32

    count = len(table)
    for name, values in (("payload", [content] * count), ("crc32", [crc32(content)] * count)):
        place = table.schema.get_field_index(name)
        field = table.schema.field(name)
        table = table.set_column(place, field, pa.array(values, field.type))
    return table


def _version(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(table.schema.metadata | {b"rolldeck.format": b"9"})


CHANGES: dict[str, Any] = {
    "no metadata": lambda table: table.replace_schema_metadata({}),
    "another version": _version,
    "no column": lambda table: table.drop_columns(["payload"]),
    "another type": lambda table: table.set_column(
        0, "item_id", table["item_id"].cast(pa.string())
    ),
    "another checksum": lambda table: table.set_column(
        table.schema.get_field_index("crc32"), "crc32", pa.array([7] * len(table), pa.int64())
    ),
    "no group": lambda table: _payload(table, b'{"tokens": [[1]]}'),
    "no JSON": lambda table: _payload(table, b"\x80\x04K\x01."),
}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "not a valid Parquet file"),
        ("text", "not a valid Parquet file"),
        ("a page", "damaged"),
        ("no metadata", "but not a Rolldeck archive"),
        ("another version", "format version 9"),
        ("no column", "no column 'payload'"),
        ("another type", "'item_id' is string, not int64"),
        ("another checksum", r"row 0 of row group 0 \(item \d+\).*checksum"),
        ("no group", r"row 0 of row group 0 .* is invalid: .*masks"),
        ("no JSON", "is invalid"),
    ],
)
def test_an_invalid_file_is_refused_and_nothing_is_stored(
    run: Run, tmp_path: Path, how: str, message: str
) -> None:
    push_groups(run, 2)
    train(run, steps=2)
    export(run, tmp_path / "words.parquet")
    damage(tmp_path / "words.parquet", how)
    before = TrajectoryGroup.objects.count()

    with pytest.raises(ArchiveUnreadable, match=message):
        restore(tmp_path / "words.parquet", "again")

    assert TrajectoryGroup.objects.count() == before
    assert not Run.objects.filter(name="again").exists()


def test_fragments_with_the_same_slot_and_number_store_nothing(tmp_path: Path) -> None:
    run = make_run(name="carts", epoch=1, policy_step=0, batch_size=2)
    register_trainer(run_id=run.pk, identity="alice", resume=True, now=NOON)
    accept_fragments(
        run=run, fragments=decode_fragments(push(fragment(), fragment(number=1))), now=NOON
    )
    train(run)
    path = tmp_path / "carts.parquet"
    export(run, path)
    table = pq.read_table(path)
    pq.write_table(_payload(table, table["payload"][0].as_py()), path)

    with pytest.raises(ArchiveUnreadable, match="have the same slot and number"):
        restore(path, "carts")

    assert FragmentChunk.objects.filter(run=run).count() == 2


def test_an_archive_fits_only_runs_of_its_kind(run: Run, tmp_path: Path) -> None:
    make_run(name="carts")
    export(run, tmp_path / "words.parquet")

    with pytest.raises(WrongRunForArchive, match="carts does not accept the groups"):
        restore(tmp_path / "words.parquet", "carts")


def test_an_export_that_fails_leaves_no_file(run: Run, tmp_path: Path) -> None:
    push_groups(run, 1)
    train(run)

    def fail(_: Any) -> None:
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError):
        export_run(run=run, window=EVERYTHING, path=tmp_path / "x", now=NOON, on_progress=fail)

    assert list(tmp_path.iterdir()) == []
