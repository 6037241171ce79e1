"""Groups are written to a folder, read as arrays, and pushed again."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolldeck import wire
from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError
from rolldeck.group_encoding import pack_group
from rolldeck.group_files import GroupFiles, read_groups
from rolldeck.padding import padded
from rolldeck.push_files import ITEMS_PER_FILE
from rolldeck.sender import GroupSender
from rolldeck.wire import BatchHead, GroupPush
from tests.unit.client.failing_server import Planned, Seen, serving

RECEIPT = b'{"received":1,"buffered":0,"dropped":{},"admission_remaining":0}'


def group(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "tokens": [[1, 2, number], [1, 3]],
        "masks": [[-100, 2, number], [-100, 3]],
        "inference_logprobs": [np.float32([0, -0.5, -0.25]), np.float32([0, -0.125])],
        "scores": [1.0, float(number)],
        "lesson": "sums",
        "epoch": 1,
        "policy_step": number,
        **fields,
    }


def encoded(number: int) -> bytes:
    return wire.encode(pack_group(group(number)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_groups_of_a_folder_are_the_arrays_of_a_batch(tmp_path: Path) -> None:
    count = ITEMS_PER_FILE + 2
    with GroupFiles(tmp_path / "new") as files:
        for number in range(count):
            files.add(encoded(number))

    assert names(tmp_path / "new") == ["groups-000001.msgpack", "groups-000002.msgpack"]
    read = list(read_groups(tmp_path / "new"))
    assert [one.policy_step for one in read] == list(range(count))
    head = BatchHead(
        id="b", ordinal=1, fence=1, kind="groups", count=count, lease_seconds=1, epoch=1,
        policy_step=0,
    )  # fmt: skip
    served = Batch(head, [encoded(number) for number in range(count)], ["msgpack"] * count).padded()
    arrays = padded(read)
    assert arrays.keys() == served.keys()
    for name, values in served.items():
        np.testing.assert_array_equal(arrays[name], values)


def test_read_groups_are_pushed_byte_for_byte(tmp_path: Path) -> None:
    with GroupFiles(tmp_path) as files:
        for number in range(3):
            files.add(encoded(number))
    file = (tmp_path / "groups-000001.msgpack").read_bytes()

    def answer(_: Seen) -> Planned:
        return Planned(body=RECEIPT)

    with serving(answer) as server, GroupSender(server.url, "demo") as sender:
        sender.push_groups([*read_groups(tmp_path)])

    assert server.seen[0].body == file
    assert file == wire.encode(GroupPush(groups=[encoded(number) for number in range(3)]))


def test_read_groups_are_sent_with_smaller_log_probabilities(tmp_path: Path) -> None:
    with GroupFiles(tmp_path) as files:
        files.add(encoded(1))
    [read] = read_groups(tmp_path)

    assert pack_group(read, logprob_dtype="float16") == pack_group(
        group(1), logprob_dtype="float16"
    )


def test_a_folder_with_groups_is_refused(tmp_path: Path) -> None:
    with GroupFiles(tmp_path) as files:
        files.add(encoded(1))

    with pytest.raises(FileExistsError, match="already contains groups; use another folder"):
        GroupFiles(tmp_path)


def test_a_full_disk_leaves_no_part_and_the_groups_can_be_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        write(self, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    files = GroupFiles(tmp_path)
    files.add(encoded(1))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left"):
            files.close()
    assert names(tmp_path) == []

    files.close()
    assert len(list(read_groups(tmp_path))) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wire.encode(GroupPush(groups=[encoded(1)]))[:-1], "is not a file of groups: .*truncated"),
        (wire.encode(GroupPush(groups=[b"\x80"])), "is not a file of groups: .*lengths"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FileNotFoundError, match="contains no groups"):
        list(read_groups(tmp_path))
    (tmp_path / "groups-000001.msgpack").write_bytes(content)

    with pytest.raises(InvalidMessageError, match=f"groups-000001.msgpack {message}"):
        list(read_groups(tmp_path))
