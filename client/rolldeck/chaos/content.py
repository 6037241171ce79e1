"""Groups and fragments whose whole content follows from a client and a number."""

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from rolldeck import wire
from rolldeck.chaos.history import Mark
from rolldeck.replay import pack_fragment

SEQUENCES: Final = 2
MOST_TOKENS: Final = 100
LONG_TOKENS: Final = 6_000
LONG_EVERY: Final = 100
"""One group of this many is long, so that answers can be cut in the middle."""


def group_of(client: int, number: int) -> dict[str, Any]:
    """Return a scored group in the format of Atropos, always the same for one mark."""
    digest = hashlib.sha256(f"{client}/{number}".encode()).digest()
    length = 3 + int.from_bytes(digest[:4], "big") % MOST_TOKENS
    if number % LONG_EVERY == LONG_EVERY - 1:
        length = LONG_TOKENS
    filling = [digest[at % 32] + at for at in range(length - 3)]
    tokens = [[client, number, sequence, *filling] for sequence in range(SEQUENCES)]
    scores = [digest[4 + sequence] / 256 for sequence in range(SEQUENCES)]
    return {"tokens": tokens, "masks": tokens, "scores": scores}


def mark_of(group: Mapping[str, Any]) -> tuple[Mark | None, bool]:
    """Return the mark of a received group, and whether its content is that of the mark."""
    try:
        client, number = (int(token) for token in group["tokens"][0][:2])
    except (KeyError, IndexError, TypeError, ValueError):
        return None, False
    expected = group_of(client, number)
    names = ("tokens", "masks", "scores")
    return (client, number), all(group.get(name) == expected[name] for name in names)


STEPS: Final = 4
_STEPS: Final[dict[str, NDArray[Any]]] = {
    **{name: np.zeros(STEPS, np.bool_) for name in ("first", "terminated", "truncated")},
    **{name: np.zeros(STEPS, np.float32) for name in ("behavior_logprob", "value")},
    **{name: np.zeros(STEPS, np.int32) for name in ("policy_step", "episode_index")},
    "action": np.zeros(STEPS, np.int64),
}
OWN_SLOT: Final = "@chaos"


class _Place(msgspec.Struct):
    """The fields that identify a fragment."""

    slot: str
    number: int


def fragment_of(client: int, number: int) -> bytes:
    """Return an encoded fragment, always the same for one mark."""
    filling = np.arange(number, number + STEPS, dtype=np.float32)
    arrays = _STEPS | {"obs": np.stack([filling] * 4, axis=1), "reward": filling}
    fragment = pack_fragment(
        arrays | {"next_obs": arrays["obs"][-1] + 1},
        slot=f"{client}{OWN_SLOT}",
        number=number,
        environment="gymnasium:CartPole-v1",
        worker=str(client),
        epoch=1,
        episode_ids=["e"],
    )
    return wire.encode(fragment)


def mark_of_fragment(content: bytes | memoryview) -> tuple[Mark | None, bool]:
    """Return the mark of a received fragment, and whether its bytes are those of the mark.

    The content of a fleet's fragment is unknown; its mark follows from its slot and number.
    """
    try:
        place = msgspec.msgpack.decode(content, type=_Place)
    except msgspec.DecodeError:
        return None, False
    if not place.slot.endswith(OWN_SLOT):
        return (zlib.crc32(place.slot.encode()), place.number), True
    client = int(place.slot.removesuffix(OWN_SLOT))
    return (client, place.number), bytes(content) == fragment_of(client, place.number)


def digest_of(content: object) -> str:
    """Return a digest of received content that does not depend on the order of keys."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]
