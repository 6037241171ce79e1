"""Folder of trajectory groups without a platform: write it during rollouts, train on it, push it.

A file ``groups-000001.msgpack`` is the body of a push, an encoded
:class:`rolldeck.wire.GroupPush`. A trainer reads a folder as the arrays of a batch, and a sender
pushes it to a run::

    arrays = padded([*read_groups("rollouts")])  # rolldeck.padding, as Batch.padded
    sender.push_groups([*read_groups("rollouts")])  # at most 1,024 groups at once
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rolldeck.errors import InvalidMessageError
from rolldeck.groups import GroupArrays, read_msgpack
from rolldeck.push_files import PushFiles, files_in
from rolldeck.wire import GroupPush, encode


class GroupFiles(PushFiles):
    """Writer of encoded :class:`rolldeck.wire.Group`."""

    items = "groups"

    @staticmethod
    def body(items: list[bytes]) -> bytes:
        return encode(GroupPush(groups=items))


def read_groups(folder: Path | str) -> Iterator[GroupArrays]:
    """Yield the groups of a folder, file by file, in the order in which they were added.

    Raises:
        FileNotFoundError: If the folder has no groups.
        InvalidMessageError: If a file is damaged; the text names it.
    """
    for path in files_in(folder, GroupFiles.items):
        try:
            push = msgspec.msgpack.decode(path.read_bytes(), type=GroupPush)
            found = [read_msgpack(one) for one in push.groups]
        except (msgspec.DecodeError, InvalidMessageError) as error:
            raise InvalidMessageError(f"{path} is not a file of groups: {error}") from error
        yield from found
