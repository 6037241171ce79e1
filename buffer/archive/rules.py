"""Say which items of a run an archive holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from buffer.items.rules.states import Fate

SETTLED: Final = (Fate.SERVED, Fate.DROPPED)
MAX_STEP: Final = 2**31 - 1
_STEPS: Final = re.compile(r"(\d{1,10})?:(\d{1,10})?")


class InvalidWindow(ValueError):
    """A window cannot be what it says; `field` is the part of it that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Settled items by state, served step and environment; None: all.

    `first_step` and `last_step` count batches from 1 and are both inside; either makes the
    window leave out items that were in no batch.
    """

    states: tuple[Fate, ...] = SETTLED
    first_step: int | None = None
    last_step: int | None = None
    env_ids: tuple[int, ...] | None = None


def window(
    *, states: Iterable[str] = (), steps: str = "", env_ids: Iterable[int] | None = None
) -> Window:
    """Return a window from what a person says.

    Args:
        states: Of ``served`` and ``dropped``; none means both.
        steps: ``first:last``, served steps, both inside; either may be left out.
        env_ids: Environments, or None for all.

    Raises:
        InvalidWindow: If a part makes no sense.
    """
    wanted = tuple(dict.fromkeys(states)) or SETTLED
    unknown = [word for word in wanted if word not in SETTLED]
    if unknown:
        raise InvalidWindow("state", f"{unknown[0]!r} is neither served nor dropped")
    first, last = _parsed(steps)
    ids = None if env_ids is None else tuple(sorted(set(env_ids)))
    if ids is not None and any(not 0 <= env_id <= MAX_STEP for env_id in ids):
        raise InvalidWindow("env", "an environment's id is a number from 0")
    return Window(
        states=tuple(Fate(word) for word in wanted), first_step=first, last_step=last, env_ids=ids
    )


def _parsed(steps: str) -> tuple[int | None, int | None]:
    if not steps:
        return None, None
    found = _STEPS.fullmatch(steps)
    if found is None:
        raise InvalidWindow("steps", f"{steps!r} is not first:last, as in 10:20")
    first, last = (None if part is None else int(part) for part in found.groups())
    if max(first or 0, last or 0) > MAX_STEP:
        raise InvalidWindow("steps", f"counts to {MAX_STEP} at most")
    if first is not None and last is not None and first > last:
        raise InvalidWindow("steps", f"{first} is behind {last}")
    return first, last
