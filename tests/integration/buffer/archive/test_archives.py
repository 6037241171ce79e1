"""Archives hold a run's served and dropped items, and restore them byte for byte."""

import hashlib
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from buffer.archive.queries import ArchiveUnreadable
from buffer.archive.rules import Window, window
from buffer.archive.services.export import export_run
from buffer.archive.services.restore import WrongRunForArchive
from buffer.batches.services.expiry import drop_open
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.schemas.pushes_msgpack import decode_fragments
from buffer.ingest.schemas.pushes_msgpack import decode_push as decode_group_push
from buffer.ingest.services.pushes import accept_fragments, accept_groups
from buffer.items.models import FragmentChunk, TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.rules import GRACE, RetentionLimits
from buffer.payloads.services.contents import readable_contents
from buffer.payloads.services.partitions import (
    clear_current_segment,
    current_segment,
    rotate_segment,
    seal,
)
from buffer.payloads.services.retention import apply_retention
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.services.registry import register_trainer
from tests.buffer_factories import body, fragment, group, push
from tests.factories import NOON, make_run
from tests.integration.buffer.archive_files import (
    EVERYTHING,
    export,
    make_words,
    push_groups,
    register,
    restore,
    train,
)
from tests.ledgers import miscounts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    return make_words()


def test_restored_groups_are_replayed_byte_for_byte(run: Run, tmp_path: Path) -> None:
    push_groups(run, 3, env_id=1)
    push_groups(run, 3, tokens=40_000)
    served = train(run, steps=5)
    push_groups(run, 1)  # still queued: not settled, so not in the file
    report = export(run, tmp_path / "words.parquet")

    restored = restore(tmp_path / "words.parquet", "again")

    assert report.items == restored.stored == 5
    again = Run.objects.get(name="again")
    register(again)
    assert train(again, steps=5) == served
    assert set(TrajectoryGroup.objects.filter(run=again).values_list("env_id", flat=True)) == {
        1,
        None,
    }
    assert set(again.environments.values_list("desired_name", flat=True)) == {"math", "code"}
    assert miscounts(again.pk) == []
    assert RunEvent.objects.get(run=again, kind="archive_restored").details["from"] == "words"


def test_msgpack_groups_are_restored_byte_for_byte(run: Run, tmp_path: Path) -> None:
    sent = [wire.encode(pack_group(group(mark=mark, tokens=40))) for mark in (1, 2)]
    groups = decode_group_push(wire.encode(wire.GroupPush(groups=sent)))
    accept_groups(run=run, groups=groups, producer="bob", now=NOON)
    train(run, steps=2)
    export(run, tmp_path / "words.parquet")

    restore(tmp_path / "words.parquet", "again")

    ids = TrajectoryGroup.objects.filter(run__name="again").order_by("id")
    items = list(ids.values_list("id", flat=True))
    contents = readable_contents(ItemKind.GROUPS, items).values()
    assert [(content.codec, content.content) for content in contents] == [
        ("msgpack", part) for part in sent
    ]


def test_fragments_are_restored_byte_for_byte(tmp_path: Path) -> None:
    run = make_run(name="carts", epoch=1, policy_step=0, batch_size=2)
    register_fleet_trainer(run)
    sent = decode_fragments(
        push(*(fragment(number=n) for n in range(4)), fragment(number=4, epoch=0))
    )
    accept_fragments(run=run, fragments=sent, now=NOON)
    served = train(run, steps=2)
    report = export(run, tmp_path / "carts.parquet")

    restored = restore(tmp_path / "carts.parquet", "carts")

    assert (report.items, report.without_bytes) == (4, 1)
    assert restored.stored == 4
    assert train(run, steps=2) == served == [content for _, content in sent[:4]]
    slots = FragmentChunk.objects.exclude(origin="").values_list("slot", "number", "contiguous")
    assert {slot for slot, _, _ in slots} == {f"w0-0@a~{source(tmp_path / 'carts.parquet')}"}
    assert [(number, contiguous) for _, number, contiguous in slots.order_by("id")] == [
        *((0, False), (1, True), (2, True), (3, True))
    ]
    assert miscounts(run.pk) == []


def register_fleet_trainer(run: Run) -> None:
    register_trainer(run_id=run.pk, identity="alice", resume=True, now=NOON)


def source(path: Path) -> str:
    metadata = pq.read_schema(path).metadata
    return metadata[b"rolldeck.source"].decode().strip('"')


def test_a_missing_fleet_run_is_drafted_with_its_configuration(tmp_path: Path) -> None:
    run = make_run(
        name="carts", config={"policy": {"hidden_sizes": [8]}}, epoch=1, policy_step=0, batch_size=2
    )
    register_fleet_trainer(run)
    accept_fragments(
        run=run, fragments=decode_fragments(push(fragment(), fragment(number=1))), now=NOON
    )
    train(run)
    export(run, tmp_path / "carts.parquet")

    restore(tmp_path / "carts.parquet", "copy")

    copy = Run.objects.get(name="copy")
    assert copy.status == "draft"
    assert copy.config["policy"]["hidden_sizes"] == [8]
    assert FragmentChunk.objects.filter(run=copy, state="queued", epoch=1).count() == 2


def test_the_same_file_twice_is_stored_once(run: Run, tmp_path: Path) -> None:
    push_groups(run, 3)
    train(run, steps=3)
    export(run, tmp_path / "all.parquet")
    export(run, tmp_path / "late.parquet", window(steps="2:3"))
    first = restore(tmp_path / "late.parquet", "again")

    second = restore(tmp_path / "all.parquet", "again")
    third = restore(tmp_path / "all.parquet", "again")

    assert (first.stored, second.stored, second.known) == (2, 1, 2)
    assert (third.stored, third.known) == (0, 3)
    assert TrajectoryGroup.objects.filter(run__name="again").count() == 3


def test_a_window_is_restored_out_of_a_larger_file(run: Run, tmp_path: Path) -> None:
    push_groups(run, 2, env_id=0)
    push_groups(run, 2, env_id=1)
    train(run, steps=4)
    export(run, tmp_path / "all.parquet")

    steps = restore(tmp_path / "all.parquet", "steps", window(steps="2:3"))
    envs = restore(tmp_path / "all.parquet", "envs", window(env_ids=[1]))

    assert (steps.stored, steps.left_out) == (2, 2)
    assert (envs.stored, envs.left_out) == (2, 2)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (window(steps="1:2"), {1, 2}),
        (window(steps="3:"), {3, 4}),
        (window(states=["served"]), {1, 2, 3, 4}),
        (window(states=["dropped"]), {None}),
        (window(), {1, 2, 3, 4, None}),
    ],
)
def test_windows_select_by_step_and_state(
    run: Run, tmp_path: Path, window: Window, expected: set[int | None]
) -> None:
    push_groups(run, 2, env_id=0)
    push_groups(run, 2, env_id=1)
    train(run, steps=4)
    push_groups(run, 1)
    drop_open(run_id=run.pk, reason="killed", now=NOON)

    export(run, tmp_path / "some.parquet", window)

    table = pq.read_table(tmp_path / "some.parquet")
    assert set(table["served_step"].to_pylist()) == expected


def test_windows_select_by_environment(run: Run, tmp_path: Path) -> None:
    push_groups(run, 2, env_id=0)
    push_groups(run, 3, env_id=1)
    train(run, steps=5)

    export(run, tmp_path / "some.parquet", window(env_ids=[1]))

    assert pq.read_table(tmp_path / "some.parquet")["env_id"].to_pylist() == [1, 1, 1]


def test_the_file_contains_its_description(run: Run, tmp_path: Path) -> None:
    push_groups(run, 1, env_id=0)
    (content,) = train(run)
    export(run, tmp_path / "words.parquet")

    file = pq.ParquetFile(tmp_path / "words.parquet")

    metadata = file.schema_arrow.metadata
    assert metadata[b"rolldeck.format"] == b"1"
    assert metadata[b"rolldeck.kind"] == b"groups"
    assert b'"name":"words"' in metadata[b"rolldeck.run"]
    (row,) = file.read().to_pylist()
    assert row["payload"] == content
    assert (row["codec"], row["served_step"], row["position"]) == ("json", 1, 0)
    assert (row["env_id"], row["sequences"], row["tokens"]) == (0, 2, 10)
    assert row["received_at"] == NOON


def test_items_without_bytes_are_left_out_and_counted(run: Run, tmp_path: Path) -> None:
    clear_current_segment()
    push_groups(run, 1)
    train(run)
    number = current_segment()
    rotate_segment(now=NOON)
    seal(number, now=NOON)
    push_groups(run, 1, tokens=40_000)
    push_groups(run, 1, tokens=50_000)
    push_groups(run, 1)
    train(run, steps=3)
    _, lost, damaged, _ = TrajectoryGroup.objects.order_by("id")
    files = Path(os.environ["ROLLDECK_VAR"]) / "payloads"
    (files / lost.object).unlink()
    (files / damaged.object).write_bytes(b"!" * damaged.size_bytes)
    apply_retention(
        now=NOON + GRACE, limits=RetentionLimits(seconds=1, size_bytes=None, items=None)
    )

    report = export(run, tmp_path / "words.parquet")

    assert (report.items, report.expired, report.lost, report.corrupt) == (1, 1, 1, 1)
    clear_current_segment()


def test_an_empty_window_is_a_valid_file(run: Run, tmp_path: Path) -> None:
    assert export(run, tmp_path / "none.parquet").items == 0
    assert restore(tmp_path / "none.parquet", "again").stored == 0


def test_the_commands_write_and_read(run: Run, tmp_path: Path) -> None:
    push_groups(run, 3)
    train(run, steps=3)
    output, file = StringIO(), tmp_path / "words.parquet"

    call_command("archive", "words", "--out", str(file), "--steps", "1:2", stdout=output)
    call_command("restore", str(file), "--run", "again", stdout=output)

    assert output.getvalue().startswith("Wrote 2 items (")
    assert "2 items stored in again, 0 already present" in output.getvalue()
    with pytest.raises(CommandError, match="'lost' is neither"):
        call_command("archive", "words", "--out", str(file), "--state", "lost")
    with pytest.raises(CommandError, match="run 'missing' not found"):
        call_command("archive", "missing", "--out", str(file))
    with pytest.raises(CommandError, match="does not exist"):
        call_command("restore", str(tmp_path / "none"), "--run", "again")


ROOT = Path(__file__).resolve().parents[4]
OURS = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client")]


def test_without_pyarrow_the_error_names_the_package(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None; import django; django.setup()\n"
        "from pathlib import Path\n"
        "from buffer.archive.queries import ArchiveReader, ArchiveUnavailable\n"
        "try: ArchiveReader(Path('x'))\n"
        "except ArchiveUnavailable as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(OURS)},
    )
    assert "pip install 'rolldeck-server[archive]'" in done.stdout, done.stderr


def peak_growth(work: Any) -> float:
    """Return by how many megabytes the resident set grew at its peak while `work` ran."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


@pytest.mark.full("hundreds of megabytes")
def test_memory_stays_constant_for_hundreds_of_megabytes(run: Run, tmp_path: Path) -> None:
    count = 320
    content = decode_group(body(group(tokens=60_000, inference_logprobs=[[-0.5] * 60_000] * 2)))
    assert len(content.content) > 2**20
    for _ in range(count // 8):
        accept_groups(run=run, groups=[content] * 8, producer="bob", now=NOON)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE buffer_trajectorygroup SET state = 'dropped', drop_reason = 'reset'")
    file = tmp_path / "large.parquet"
    small = TrajectoryGroup.objects.order_by("id")[7].pk
    warm_up(run, tmp_path, small)

    written = peak_growth(lambda: export(run, file))
    read = peak_growth(lambda: restore(file, "again"))

    assert TrajectoryGroup.objects.filter(run__name="again").count() == count
    assert written <= 64
    assert read <= 64


def warm_up(run: Run, folder: Path, last: int) -> None:
    """Warm up both paths on a window of the same row groups."""
    TrajectoryGroup.objects.filter(id__gt=last).update(state="queued", drop_reason="")
    export(run, folder / "small.parquet")
    restore(folder / "small.parquet", "small")
    TrajectoryGroup.objects.filter(run=run).update(state="dropped", drop_reason="reset")
    assert hashlib.sha256((folder / "small.parquet").read_bytes()).digest()


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
