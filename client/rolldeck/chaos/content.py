"""Groups whose whole content follows from a client and a number."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from rolldeck.chaos.history import Mark

SEQUENCES: Final = 2
MOST_TOKENS: Final = 200
LONG_TOKENS: Final = 6_000
LONG_EVERY: Final = 40
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


def digest_of(content: object) -> str:
    """Return a digest of received content that does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
