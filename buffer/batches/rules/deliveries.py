"""Rules for a stock trainer's earlier batches on its next request.

The stock trainer names no batch: its next request acknowledges its delivered batches. An
interrupted answer is sent again. An answer that is still being sent belongs to another trainer
with the same identity, and is left alone.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

# A process on another machine, whose state is unknown, counts as sending for this long.
SENDING_LIMIT: Final = timedelta(seconds=60)


class NextAction(Enum):
    """Action for a leased batch."""

    CONFIRM = auto()
    SEND_AGAIN = auto()
    LEAVE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Progress of the answer that carries a batch; times are from the database clock."""

    delivered_at: datetime | None
    sending_since: datetime | None
    sender_is_alive: bool | None
    """None if unknown, because the process runs on another machine."""

    def on_next_request(self, *, now: datetime) -> NextAction:
        """Return the action for this batch on the next request of the same identity."""
        if self.delivered_at is not None:
            return NextAction.CONFIRM
        if self.sending_since is None or self.sender_is_alive is False:
            return NextAction.SEND_AGAIN
        if self.sender_is_alive is None and now - self.sending_since > SENDING_LIMIT:
            return NextAction.SEND_AGAIN
        return NextAction.LEAVE
