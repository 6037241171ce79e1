"""Receiver of the events of a pool of env processes."""

from typing import Any, Protocol

from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.steps.env_messages import Ready, Recorded, Stepped
from rollouts.fleet.steps.slot_queue import Slots


class PoolListener(Protocol):
    """Receiver of slot events."""

    def introduced(self, ready: Ready) -> None:
        """Handle the spaces announced by a process."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Handle a new environment that waits for its first action."""

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Handle stepped environments; `slots` are the slots of the rows of `came`."""

    def recorded(self, slot: int, came: Recorded) -> None:
        """Handle the end of a recorded episode."""

    def reported_info(self, window: InfoWindow) -> None:
        """Handle numeric values of the environments' `info`."""

    def lost(self, slot: int) -> None:
        """Handle the loss of a slot's environment, possibly in mid-episode."""

    def given_up(self, slot: int) -> None:
        """Handle that a lost slot gets no further environment."""
