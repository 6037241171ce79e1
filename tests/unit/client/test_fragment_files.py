"""Fragments are written to a folder and read back as they were."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rolldeck.errors import InvalidMessageError
from rolldeck.fragment_files import FragmentFiles, read_fragments
from rolldeck.push_files import BYTES_PER_FILE
from rolldeck.replay import pack_fragment
from rolldeck.training.chunks import join, stack
from rolldeck.wire import (
    FragmentPush,
    encode,
)
from tests.unit.client.batch_factories import make_arrays, make_fragment


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fragments_are_read_back_in_order_and_can_be_joined(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    fragments = [make_fragment(slot=f"w0-{slot}@t") for slot in range(130)]
    with FragmentFiles(folder) as files:
        for fragment in fragments[:128]:
            files.add(encode(fragment))
        assert names(folder) == ["fragments-000001.msgpack"]
        for fragment in fragments[128:]:
            files.add(encode(fragment))
        assert len(names(folder)) == 1

    assert names(folder) == ["fragments-000001.msgpack", "fragments-000002.msgpack"]
    read = list(read_fragments(folder))
    assert [view.fragment for view in read] == fragments
    arrays = stack(join(read))
    assert arrays["obs"].shape == (130, 8, 4)


def test_a_file_is_the_body_of_a_push(tmp_path: Path) -> None:
    with FragmentFiles(tmp_path) as files:
        files.add(encode(make_fragment()))

    content = (tmp_path / "fragments-000001.msgpack").read_bytes()
    push = msgspec.msgpack.decode(content, type=FragmentPush)
    assert push.fragments == [encode(make_fragment())]


def test_large_fragments_get_files_of_limited_size(tmp_path: Path) -> None:
    obs = np.zeros((8, BYTES_PER_FILE // 8 // 2 + 8), dtype=np.uint8)
    arrays = make_arrays() | {"obs": obs, "next_obs": obs[0]}
    with FragmentFiles(tmp_path) as files:
        for number in range(3):
            files.add(
                encode(
                    pack_fragment(
                        arrays,
                        slot="w0-0@t",
                        number=number,
                        epoch=1,
                        environment="rolldeck:images",
                        worker="w0@t",
                        episode_ids=["e"],
                    )
                )
            )

    assert len(names(tmp_path)) == 3
    assert [view.fragment.number for view in read_fragments(tmp_path)] == [0, 1, 2]


def test_a_folder_with_fragments_is_refused(tmp_path: Path) -> None:
    with FragmentFiles(tmp_path) as files:
        files.add(encode(make_fragment()))

    with pytest.raises(FileExistsError, match="already contains fragments"):
        FragmentFiles(tmp_path)


def test_a_file_that_cannot_be_written_leaves_no_part(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    files = FragmentFiles(folder)
    files.add(encode(make_fragment()))
    folder.rmdir()

    with pytest.raises(FileNotFoundError):
        files.close()
    folder.mkdir()
    files.close()
    assert names(folder) == ["fragments-000001.msgpack"]


def test_a_folder_without_fragments_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="contains no fragments"):
        list(read_fragments(tmp_path))

    path = tmp_path / "fragments-000001.msgpack"
    path.write_bytes(encode(FragmentPush(fragments=[encode(make_fragment())]))[:-1])
    with pytest.raises(InvalidMessageError, match=r"fragments-000001\.msgpack is not a file"):
        list(read_fragments(tmp_path))
