"""Push trajectory groups to an Atropos server at the pace of its trainer.

A rollout handler registers its environment, reads the metrics group and project, then produces and
sends groups. It polls the length of the queue: above an upper threshold it pauses, below a lower
one it resumes. At the end it disconnects. It works the same with Rolldeck
(``http://host:8000/atropos/<run>``) and with a stock ``atroposlib`` server.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rolldeck.closing import Closing
from rolldeck.errors import InvalidAnswerError, RolldeckError
from rolldeck.http import Call, Connection
from rolldeck.pacing import RESUME_FRACTION, HandlerState, PauseRule
from rolldeck.sender import GroupSender

logger = logging.getLogger("rolldeck")

WAITING_ANSWER: Final = "wait for trainer to start"
Group = Mapping[str, Any]
Produced = Group | Sequence[Group] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The server's response to a registration."""

    env_id: int
    wandb_name: str
    starting_step: int
    group: str | None
    """Metrics group and project for a tracker; None if the trainer named none."""
    project: str | None
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentStatus:
    """The state of the server's queue."""

    current_step: int
    queued_groups: int
    env_weight: float
    paced: bool = False
    """Whether the server applies the thresholds to this environment's share of the queue."""
    held: bool = False
    """Whether the run is paused, draining or over, so that environments must not produce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerEvent:
    """An event that a tracker may log."""

    kind: str
    """``registered``, ``sent``, ``status``, ``paused``, ``resumed`` or ``disconnected``."""
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOffer:
    """Registration of an environment; the fields are those of Atropos' ``/register-env``."""

    desired_name: str
    max_token_length: int
    weight: float = 1.0
    group_size: int = 1
    """Sequences per group."""
    min_batch_allocation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Polling interval and pause thresholds of the handler."""

    poll_seconds: float = 1.0
    off_policy_tolerance: float = 3.0
    resume_fraction: float = RESUME_FRACTION


Tracker = Callable[[HandlerEvent], None]
Produce = Callable[[], Produced]


class RolloutHandler(Closing):
    """Client of one environment, from registration to disconnection.

    ::

        offer = EnvironmentOffer(desired_name="gsm8k", max_token_length=2048, group_size=8)
        with RolloutHandler("http://host:8000/atropos/demo", offer, token=token) as handler:
            handler.run(produce)  # until another thread calls handler.stop()

    `produce` returns a scored group, several groups, or None if none is ready.
    """

    def __init__(
        self,
        url: str,
        offer: EnvironmentOffer,
        *,
        token: str | None = None,
        pace: Pace | None = None,
        tracker: Tracker | None = None,
        sender: GroupSender | None = None,
        connection: Connection | None = None,
    ) -> None:
        """Configure the handler without sending a request.

        Args:
            url: Base of the Atropos routes.
            offer: Registration of the environment.
            token: For servers that need one; the URL may also contain credentials.
            pace: Polling interval and pause thresholds.
            tracker: Called with every event, in the thread of `run`.
            sender: Sends the groups in binary form to the same run of a Rolldeck server; without
                it they are sent as JSON, which any Atropos server accepts.
            connection: Existing connection to use; `close` leaves it open.
        """
        self.offer = offer
        self.pace = pace or Pace()
        self.state = HandlerState.RUNNING
        self.registration: Registration | None = None
        self._owns_connection = connection is None
        self._connection = connection or Connection(url, token)
        self._tracker = tracker
        self._sender = sender
        self._stopping = threading.Event()

    def close(self) -> None:
        """Disconnect if still connected, and close the sockets."""
        try:
            self.disconnect()
        except RolldeckError as error:
            logger.warning("environment was not disconnected: %s", error)
        if self._owns_connection:
            self._connection.close()

    def stop(self) -> None:
        """Make `run` and `register` return soon; may be called from any thread."""
        self._stopping.set()

    def run(self, produce: Produce) -> None:
        """Register, then produce and send while the queue permits, until `stop` is called."""
        registration = self.register()
        if registration is None:
            return
        rule = PauseRule(
            batch_size=max(1, registration.batch_size),
            off_policy_tolerance=self.pace.off_policy_tolerance,
            resume_fraction=self.pace.resume_fraction,
        )
        examined = time.monotonic()
        while not self._stopping.is_set():
            if self.state is HandlerState.RUNNING:
                self.send(produce())
            else:
                self._stopping.wait(self.pace.poll_seconds)
            due = time.monotonic() - examined >= self.pace.poll_seconds
            if due or self.state is HandlerState.PAUSED:
                examined = time.monotonic()
                self._adjust_state(rule)
        self.disconnect()

    def register(self) -> Registration | None:
        """Register the environment, waiting for a trainer to start; None if stopped before.

        Raises:
            InvalidAnswerError: If the response is not a registration.
            RolldeckError: Another subclass for a refusal, or if the server is unreachable.
        """
        offer = self.offer
        body = {
            "desired_name": offer.desired_name,
            "max_token_length": offer.max_token_length,
            "weight": offer.weight,
            "group_size": offer.group_size,
            "min_batch_allocation": offer.min_batch_allocation,
        }
        call = Call(method="POST", path="/register-env", json=body)
        answer = self._request(call)
        if answer.get("status") == WAITING_ANSWER:
            logger.info("%s waits for a trainer to start", offer.desired_name)
        while answer.get("status") == WAITING_ANSWER:
            if self._stopping.wait(self.pace.poll_seconds):
                return None
            answer = self._request(call)
        if answer.get("status") != "success":
            raise InvalidAnswerError(status=200, code="not_registered", detail=str(answer))
        wandb = self._request(Call(method="GET", path="/wandb_info"))
        served = self._request(Call(method="GET", path="/info"))
        self.registration = Registration(
            env_id=int(answer["env_id"]),
            wandb_name=str(answer.get("wandb_name", offer.desired_name)),
            starting_step=int(answer.get("starting_step", 0)),
            group=wandb.get("group"),
            project=wandb.get("project"),
            batch_size=int(served.get("batch_size", -1)),
        )
        self._track(
            "registered",
            name=self.registration.wandb_name,
            group=self.registration.group,
            project=self.registration.project,
        )
        return self.registration

    def send(self, produced: Produced) -> None:
        """Send one scored group, several in one request, or nothing for None."""
        if not produced:
            return
        several = not isinstance(produced, Mapping)
        path = "/scored_data_list" if several else "/scored_data"
        env_id = self._registered().env_id
        groups = produced if not isinstance(produced, Mapping) else [produced]
        signed = [{"env_id": env_id, **group} for group in groups]
        if self._sender is not None:
            self._sender.push_groups(signed)
        else:
            self._request(Call(method="POST", path=path, json=signed if several else signed[0]))
        self._track("sent", groups=len(signed))

    def status(self) -> EnvironmentStatus:
        """Return the state of the queue for this environment."""
        # The protocol uses a JSON body on GET.
        body = {"env_id": self._registered().env_id}
        answer = self._request(Call(method="GET", path="/status-env", json=body))
        status = EnvironmentStatus(
            current_step=int(answer["current_step"]),
            queued_groups=int(answer["queue_size"]),
            env_weight=float(answer.get("env_weight", 1.0)),
            paced=answer.get("paced") is True,
            held=answer.get("held") is True,
        )
        self._track("status", current_step=status.current_step, queue_size=status.queued_groups)
        return status

    def disconnect(self) -> None:
        """Unregister this environment; repeated calls do nothing."""
        if self.registration is None:
            return
        body = {"env_id": self.registration.env_id}
        self.registration = None
        self._request(Call(method="POST", path="/disconnect-env", json=body))
        self._track("disconnected")

    def _adjust_state(self, rule: PauseRule) -> None:
        status = self.status()
        # The server counts groups; batches are counted in sequences.
        queued = status.queued_groups * self.offer.group_size
        state = (
            HandlerState.PAUSED
            if status.held
            else rule.state_after(self.state, queued=queued, paced=status.paced)
        )
        if state is self.state:
            return
        self.state = state
        kind = "paused" if state is HandlerState.PAUSED else "resumed"
        text = "%s %s at step %d: %d sequences queued, pauses above %g, resumes at %g"
        marks = rule.pause_above, rule.resume_at
        logger.info(text, self.offer.desired_name, kind, status.current_step, queued, *marks)
        self._track(kind, current_step=status.current_step, queued_sequences=queued)

    def _registered(self) -> Registration:
        if self.registration is None:
            raise RolldeckError(status=0, code="not_registered", detail="call register() first")
        return self.registration

    def _request(self, call: Call) -> dict[str, Any]:
        return self._connection.decoded(call, dict[str, Any])

    def _track(self, kind: str, **values: Any) -> None:
        if self._tracker is not None:
            self._tracker(HandlerEvent(kind=kind, values=values))
