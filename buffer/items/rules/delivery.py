"""Decide what becomes of a stock trainer's earlier batches when it asks again.

The stock trainer names no batch: its next request confirms what was delivered to it. An answer
that was cut comes again. An answer that is still being sent belongs to another trainer behind
the same identity, and is left alone.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

# A process that cannot be asked (another machine) is believed to be sending for this long.
SENDING_LIMIT: Final = timedelta(seconds=60)


class Next(Enum):
    """What to do with a leased batch."""

    CONFIRM = auto()
    SEND_AGAIN = auto()
    LEAVE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How far the answer that carries a batch has come; times are the database's."""

    delivered_at: datetime | None
    sending_since: datetime | None
    sender_is_alive: bool | None
    """None: it runs where we cannot look."""

    def on_next_request(self, *, now: datetime) -> Next:
        """Return what the next request of the same identity means for this batch."""
        if self.delivered_at is not None:
            return Next.CONFIRM
        if self.sending_since is None or self.sender_is_alive is False:
            return Next.SEND_AGAIN
        if self.sender_is_alive is None and now - self.sending_since > SENDING_LIMIT:
            return Next.SEND_AGAIN
        return Next.LEAVE
