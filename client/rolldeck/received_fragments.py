"""Fragments whose arrays are views of the received message, so that decoding copies no array.

A view keeps the whole message in memory.
"""

from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from rolldeck.wire import SCHEMA_VERSION, Array, Fragment


class ReceivedArray(Array, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An :class:`Array` whose data is a view."""

    data: memoryview  # type: ignore[assignment] # a buffer, like bytes

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the array with its own bytes; a view cannot be pickled."""
        return partial(Array, dtype=self.dtype, shape=self.shape, data=bytes(self.data)), ()


class ReceivedFragment(Fragment, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`Fragment` whose arrays are views."""

    arrays: dict[str, ReceivedArray]  # type: ignore[assignment]


class ReceivedPush(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A :class:`rolldeck.wire.FragmentPush` whose fragments are views."""

    schema: int = SCHEMA_VERSION
    fragments: Annotated[list[memoryview], Meta(min_length=1, max_length=1024)]


_decode: Final = msgspec.msgpack.Decoder(ReceivedFragment).decode
_decode_push: Final = msgspec.msgpack.Decoder(ReceivedPush).decode


def decode_fragment(content: Any) -> Fragment:
    """Return the fragment in encoded bytes, or in a view of them.

    Raises:
        msgspec.MsgspecError: If they are not an encoded fragment.
    """
    return _decode(content)


def decode_push(body: bytes) -> ReceivedPush:
    """Return an encoded push, with a view of each encoded fragment.

    Raises:
        msgspec.MsgspecError: If `body` is not an encoded push.
    """
    return _decode_push(body)
