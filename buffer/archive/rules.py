"""Selection of a run's items for an archive."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from buffer.items.rules.states import ItemState
from web.rules.errors import InvalidField

SETTLED: Final = (ItemState.SERVED, ItemState.DROPPED)
MAX_STEP: Final = 2**31 - 1
_STEPS: Final = re.compile(r"(\d{1,10})?:(\d{1,10})?")


class InvalidWindow(InvalidField):
    """A window is invalid; `field` names the invalid part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Served and dropped items by state, served step and environment; None selects all.

    `first_step` and `last_step` count batches from 1 and are inclusive. If either is set, the
    window excludes items that were in no batch.
    """

    states: tuple[ItemState, ...] = SETTLED
    first_step: int | None = None
    last_step: int | None = None
    env_ids: tuple[int, ...] | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of an archive is in the window."""
        step = row["served_step"]
        if row["state"] not in self.states:
            return False
        if self.first_step is not None and (step is None or step < self.first_step):
            return False
        if self.last_step is not None and (step is None or step > self.last_step):
            return False
        return self.env_ids is None or row.get("env_id") in self.env_ids


def window(
    *, states: Iterable[str] = (), steps: str = "", env_ids: Iterable[int] | None = None
) -> Window:
    """Return the window that user input describes.

    Args:
        states: ``served``, ``dropped`` or both; empty means both.
        steps: Served steps as ``first:last``, inclusive; either end may be omitted.
        env_ids: Environments, or None for all.

    Raises:
        InvalidWindow: If a part is invalid.
    """
    chosen = tuple(dict.fromkeys(states)) or SETTLED
    unknown = [word for word in chosen if word not in SETTLED]
    if unknown:
        raise InvalidWindow("state", f"{unknown[0]!r} is neither served nor dropped")
    first, last = _parsed(steps)
    ids = None if env_ids is None else tuple(sorted(set(env_ids)))
    if ids is not None and any(not 0 <= env_id <= MAX_STEP for env_id in ids):
        raise InvalidWindow("env", f"an env_id must be from 0 to {MAX_STEP}")
    return Window(
        states=tuple(ItemState(word) for word in chosen),
        first_step=first,
        last_step=last,
        env_ids=ids,
    )


def _parsed(steps: str) -> tuple[int | None, int | None]:
    if not steps:
        return None, None
    found = _STEPS.fullmatch(steps)
    if found is None:
        raise InvalidWindow("steps", f"{steps!r} is not first:last, as in 10:20")
    first, last = (None if part is None else int(part) for part in found.groups())
    if max(first or 0, last or 0) > MAX_STEP:
        raise InvalidWindow("steps", f"must be at most {MAX_STEP}")
    if first is not None and last is not None and first > last:
        raise InvalidWindow("steps", f"the first step {first} is after the last step {last}")
    return first, last
