"""Folder of fragments without a platform: write it during rollouts, read it for training.

A file ``fragments-000001.msgpack`` is the body of a push, an encoded
:class:`rolldeck.wire.FragmentPush`, so a platform accepts it too. A trainer reads a folder with::

    arrays = stack(join([*read_fragments("rollouts")]))  # rolldeck.training.chunks
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rolldeck.batches import FragmentView
from rolldeck.errors import InvalidMessageError
from rolldeck.push_files import PushFiles, files_in
from rolldeck.wire import Fragment, FragmentPush, encode_push


class FragmentFiles(PushFiles):
    """Writer of encoded :class:`rolldeck.wire.Fragment`."""

    items = "fragments"

    @staticmethod
    def body(items: list[bytes]) -> bytes:
        return encode_push(items)


def read_fragments(folder: Path | str) -> Iterator[FragmentView]:
    """Yield the fragments of a folder, file by file, in the order in which they were cut.

    Raises:
        FileNotFoundError: If the folder has no fragments.
        InvalidMessageError: If a file is damaged; the text names it.
    """
    for path in files_in(folder, FragmentFiles.items):
        try:
            push = msgspec.msgpack.decode(path.read_bytes(), type=FragmentPush)
            found = [msgspec.msgpack.decode(one, type=Fragment) for one in push.fragments]
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"{path} is not a file of fragments: {error}") from error
        yield from map(FragmentView, found)
