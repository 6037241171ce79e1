"""The sequences of an archive are a data set of the real Ray Data."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from buffer.archive.services import export as exporting
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from rolldeck.sequences import SCHEMA, ArchiveUnreadableError
from tests.buffer_factories import body, group
from tests.factories import NOON
from tests.integration.buffer.archive_files import export, make_words, train

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".partners" / "ray-data"
PACKAGES: Final = next((FOLDER / "lib").glob("python3*/site-packages"), FOLDER)
pytestmark = [
    pytest.mark.partner,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def ray_data() -> Iterator[Any]:
    """Return the integration, on a local cluster whose workers have pandas too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(PACKAGES)])
        paths = [str(ROOT / "client"), str(PACKAGES)]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        import ray
        import ray.data

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            from rolldeck.integrations import ray_data

            options = ray.data.DataContext.get_current().execution_options
            options.preserve_order = True

            yield ray_data
        finally:
            ray.shutdown()


@pytest.fixture
def groups() -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    return [
        group(mark=mark, tokens=int(random.integers(2, 40)))
        | {"scores": [mark / 7, -1.5], "policy_step": 0}
        for mark in range(90)
    ]


@pytest.fixture
def archive(groups: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an archive of several Parquet row groups."""
    monkeypatch.setattr(exporting, "ROW_GROUP_BYTES", 4096)
    for one in groups:
        one["inference_logprobs"] = [[-len(rows) / 3] * len(rows) for rows in one["tokens"]]
        one["messages"] = [[{"role": "user", "content": f"{place}"}] for place in range(2)]
    run = make_words()
    made = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=made, producer="bob", now=NOON)
    train(run, steps=len(groups))
    export(run, tmp_path / "words.parquet")
    return tmp_path / "words.parquet"


def test_rows_equal_the_pushed_sequences(
    ray_data: Any, groups: list[dict[str, Any]], archive: Path
) -> None:
    assert pq.ParquetFile(archive).num_row_groups > 3

    found = ray_data.read_archive(archive, override_num_blocks=3)

    assert found.schema().base_schema.equals(SCHEMA)
    rows = found.take_all()
    for name in ("tokens", "masks", "inference_logprobs"):
        pushed = [values for one in groups for values in one[name]]
        assert [list(row[name]) for row in rows] == pushed, name
    assert [row["score"] for row in rows] == [score for one in groups for score in one["scores"]]
    assert {row["policy_step"] for row in rows} == {0}
    assert [row["messages"][0]["content"] for row in rows] == ["0", "1"] * len(groups)


def test_a_filter_keeps_the_types(ray_data: Any, archive: Path) -> None:
    from ray.data.expressions import col

    found = ray_data.read_archive(archive).filter(expr=col("score") >= 1)

    batches = [*found.iter_batches(batch_size=20, batch_format="pyarrow")]
    assert sum(len(batch) for batch in batches) == 83
    for batch in batches:
        assert batch.schema.equals(SCHEMA)


@pytest.mark.parametrize("kept", [0.3, 0.99])
def test_a_file_that_is_cut_short_is_refused(ray_data: Any, archive: Path, kept: float) -> None:
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * kept)])

    with pytest.raises(
        ArchiveUnreadableError, match=r"words.parquet is not a complete Parquet file"
    ):
        ray_data.read_archive(archive)


def test_a_damaged_group_is_named(ray_data: Any, archive: Path) -> None:
    table = pq.read_table(archive)
    sums = table["crc32"].to_pylist()
    item = table["item_id"].to_pylist()[40]
    place = table.schema.get_field_index("crc32")
    changed = pa.array([*sums[:40], sums[40] ^ 1, *sums[41:]], pa.int64())
    pq.write_table(table.set_column(place, "crc32", changed), archive, row_group_size=16)

    with pytest.raises(Exception, match=f"item {item}: the payload does not match its checksum"):
        ray_data.read_archive(archive).take_all()


def test_an_absent_file_and_other_parquet_files_are_refused(ray_data: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [1]}), tmp_path / "other.parquet")

    with pytest.raises(ArchiveUnreadableError, match=r"other\.parquet is no archive"):
        ray_data.read_archive(tmp_path / "other.parquet")
    with pytest.raises(FileNotFoundError, match=r"absent\.parquet"):
        ray_data.read_archive(tmp_path / "absent.parquet")
