"""Interface between a worker that steps environments and the receiver of its steps."""

from typing import Any, Protocol

from numpy.typing import NDArray

from rolldeck.wire import InfoWindow
from rollouts.fleet.policies.policy_protocol import Decision, State
from rollouts.fleet.steps.env_messages import Stepped
from rollouts.fleet.steps.slot_queue import Slots


class ProgressHandler(Protocol):
    """Receiver of steps that also decides which slots may continue."""

    def began(self, slot: int, obs: NDArray[Any]) -> None:
        """Handle the start of an episode in a new environment."""

    def stepped(self, slots: Slots, came: Stepped) -> None:
        """Handle the N results in `came` of the last actions of ``slots [N]``."""

    def acted(
        self, slots: Slots, decision: Decision, version: tuple[int, int], state: State
    ) -> None:
        """Handle actions chosen for `slots` by `version`; `state` is the previous state, by row."""

    def aborted(self, slot: int) -> None:
        """Handle the loss of a slot's environment, which ends its episode."""

    def given_up(self, slot: int) -> None:
        """Handle that an aborted slot gets no further episode."""

    def reported_info(self, window: InfoWindow) -> None:
        """Handle numeric values of the environments' `info`."""

    def admitted(self, slots: Slots) -> Slots:
        """Return the subset of `slots` that may act on their observation now."""
