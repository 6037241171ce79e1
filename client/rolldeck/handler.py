"""Push trajectory groups to an Atropos server at the pace of its trainer.

A rollout handler registers its environment, reads the metrics group and project, then produces and
sends groups. It polls the length of the queue: above an upper threshold it pauses, below a lower
one it resumes. It saves the environment's state at the checkpoint interval of the run, and loads it
after a restart. It ends with its run: after the planned train steps, or when the run is over. At
the end it disconnects. It works the same with Rolldeck (``http://host:8000/atropos/<run>``) and
with a stock ``atroposlib`` server.
"""

import logging
import math
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rolldeck.client import ENDED
from rolldeck.closing import Closing
from rolldeck.errors import InvalidAnswerError, RolldeckError, RunNotAcceptingError, RunOverError
from rolldeck.http import Call, Connection
from rolldeck.metric_names import ENVIRONMENTS, environment_prefix
from rolldeck.metrics import metrics_call, numbers
from rolldeck.pacing import RESUME_FRACTION, HandlerState, PauseRule
from rolldeck.sender import GroupSender

logger = logging.getLogger("rolldeck")

ATROPOS: Final = "/atropos/"
"""Path of Rolldeck's Atropos routes, before the name of the run."""
CHECKPOINTS: Final = "env_checkpoints"
"""Folder of the states of environments in the checkpoint folder of a run."""
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
    checkpoint_dir: str = ""
    """Checkpoint folder of the run; empty without one."""
    checkpoint_interval: int = 0
    """Train steps between two checkpoints; 0 or less for none."""
    num_steps: int = 0
    """Planned train steps of the run; 0 or less without a plan."""


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
    """``registered``, ``loaded``, ``sent``, ``status``, ``metrics``, ``paused``, ``resumed``,
    ``saved``, ``ended`` or ``disconnected``."""
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
StateHook = Callable[[Path, int], None]
"""Function of a folder and a train step."""


class RolloutHandler(Closing):
    """Client of one environment, from registration to disconnection.

    ::

        offer = EnvironmentOffer(desired_name="gsm8k", max_token_length=2048, group_size=8)
        with RolloutHandler("http://host:8000/atropos/demo", offer, token=token) as handler:
            handler.run(produce)  # until the run ends, or another thread calls handler.stop()

    `produce` returns a scored group, several groups, or None if none is ready.

    Attributes:
        step: Train step of the run, as of its last response.
        ended: Reason why the run has ended; empty while it goes on.
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
        save: StateHook | None = None,
        load: StateHook | None = None,
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
            save: Writes the state of the environment into an empty folder, at the checkpoint
                interval of the run. The folder is that of a checkpoint once `save` has returned:
                ``<checkpoint folder>/env_checkpoints/<name>/step-<step>``.
            load: Reads the state from the newest such folder of this environment's name, after a
                registration with a run that has trained.
            connection: Existing connection to use; `close` leaves it open.
        """
        self.offer = offer
        self.step = 0
        self.ended = ""
        self._save = save
        self._load = load
        self._saved_step = 0
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
        """Register, then produce and send while the queue permits, until the run ends or `stop`.

        Raises:
            InvalidAnswerError: If the server is no Atropos server.
            RolldeckError: Another subclass for a refusal, or if the server is unreachable.
        """
        registration = self.register()
        if registration is None:
            return
        rule = PauseRule(
            batch_size=max(1, registration.batch_size),
            off_policy_tolerance=self.pace.off_policy_tolerance,
            resume_fraction=self.pace.resume_fraction,
        )
        self._load_state(registration)
        self._end_after_plan()
        examined = time.monotonic()
        while not (self._stopping.is_set() or self.ended):
            if self.state is HandlerState.RUNNING:
                self._send_or_end(produce())
            else:
                self._stopping.wait(self.pace.poll_seconds)
            due = time.monotonic() - examined >= self.pace.poll_seconds
            if not self.ended and (due or self.state is HandlerState.PAUSED):
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
            checkpoint_dir=str(answer.get("checkpoint_dir") or ""),
            checkpoint_interval=int(answer.get("checkpoint_interval") or 0),
            num_steps=int(answer.get("num_steps") or 0),
        )
        self.step = self._saved_step = self.registration.starting_step
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
        if self._tracker is not None:
            self._track("sent", groups=len(signed), **_means(signed))

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
        self.step = status.current_step
        self._track("status", current_step=status.current_step, queue_size=status.queued_groups)
        return status

    def log(self, metrics: Mapping[str, float], *, step: int | None = None) -> None:
        """Store metrics of the environment with the run, and give them to the tracker.

        The series of ``solved`` is ``env/<name>/solved``, with the name that the environment
        desires; a name that begins with ``env/`` stays as it is. A stock server has no metrics;
        there, only the tracker gets them.

        Args:
            metrics: Numbers by name, at most 1,000.
            step: Train step; by default that of the last response.

        Raises:
            ValueError: If a value is no number; nothing is stored.
            RolldeckError: If the platform refuses, or is unreachable.
        """
        at = self.step if step is None else step
        own = environment_prefix(self.offer.desired_name)
        named = {
            name if name.startswith(ENVIRONMENTS) else own + name: value
            for name, value in numbers(metrics).items()
        }
        base, is_of_run, _ = self._connection.url.partition(ATROPOS)
        if is_of_run and named:
            run = self._connection.url.rstrip("/").rpartition("/")[2]
            path = f"/api/v1/runs/{run}/metrics"
            self._connection.of(base).send(metrics_call(path, named, step=at))
        self._track("metrics", current_step=at, metrics=named)

    def disconnect(self) -> None:
        """Unregister this environment; repeated calls do nothing."""
        if self.registration is None:
            return
        body = {"env_id": self.registration.env_id}
        self.registration = None
        try:
            self._request(Call(method="POST", path="/disconnect-env", json=body))
        except RunOverError:
            if not self.ended:  # a run that is over has no environments
                raise
        self._track("disconnected")

    def _send_or_end(self, produced: Produced) -> None:
        try:
            self.send(produced)
        except (RunNotAcceptingError, RunOverError):
            self._end_if_over()
            if not self.ended:
                raise

    def _end_if_over(self) -> None:
        """Read whether the run is over; a stock server does not report it."""
        status = self._request(Call(method="GET", path="/status")).get("status")
        if status in ENDED:
            self._end(f"the run is {status}")

    def _end_after_plan(self) -> None:
        planned = self._registered().num_steps
        if 0 < planned <= self.step:
            self._end(f"{planned} train steps are done")

    def _end(self, reason: str) -> None:
        self.ended = reason
        logger.info("%s ends at step %d: %s", self.offer.desired_name, self.step, reason)
        self._track("ended", current_step=self.step, reason=reason)

    def _states(self, name: str) -> Path | None:
        folder = self._registered().checkpoint_dir
        return Path(folder) / CHECKPOINTS / name if folder else None

    def _load_state(self, registration: Registration) -> None:
        """Load the newest state of an environment of this name, up to the step of the run."""
        states = self._states("")
        if self._load is None or states is None or registration.starting_step <= 0:
            return
        # A restarted environment has another number behind its name.
        name = self.offer.desired_name
        found = [
            (int(folder.name.removeprefix("step-")), folder)
            for folder in [*states.glob(f"{name}/step-*"), *states.glob(f"{name}_*/step-*")]
            if folder.name.removeprefix("step-").isdigit()
        ]
        found = [(step, folder) for step, folder in found if step <= registration.starting_step]
        if not found:
            logger.info("%s has no saved state in %s", name, states)
            return
        step, folder = max(found)
        self._load(folder, step)
        self._track("loaded", step=step, folder=str(folder))

    def _save_state(self) -> None:
        """Save the state once per interval of train steps."""
        registration = self._registered()
        interval, states = registration.checkpoint_interval, self._states(registration.wandb_name)
        is_due = interval > 0 and self.step // interval > self._saved_step // interval
        if self._save is None or states is None or not is_due:
            return
        folder = states / f"step-{self.step}"
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        self._save(part, self.step)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        self._saved_step = self.step
        self._track("saved", step=self.step, folder=str(folder))

    def _adjust_state(self, rule: PauseRule) -> None:
        status = self.status()
        self._save_state()
        self._end_after_plan()
        if status.held and not self.ended:
            self._end_if_over()
        if self.ended:
            return
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


def _means(groups: Sequence[Group]) -> dict[str, float]:
    """Return the mean score and the mean length in tokens of the sequences of groups."""
    scores = [float(score) for group in groups for score in group.get("scores", ())]
    means = {
        "score_mean": [score for score in scores if math.isfinite(score)],
        "tokens_mean": [float(len(row)) for group in groups for row in group.get("tokens", ())],
    }
    return {name: sum(values) / len(values) for name, values in means.items() if values}
