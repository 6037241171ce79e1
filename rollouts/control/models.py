"""Fleets, their workers, reports, recordings and machines."""

import uuid
from typing import Final, get_args

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from rolldeck.wire import ReportedFleetState, ReportedSlotState, ReportedWorkerState
from runs.config.rules.failure_budget import CAUSES
from runs.lifecycle.models import Run

# Models of fleets: their last reports and measurements.

FLEET_STATES: Final = ("none", *get_args(ReportedFleetState))
"""Fleet states that a manager may report; `none` before the first report."""
WORKER_STATES: Final = get_args(ReportedWorkerState)
SLOT_STATES: Final = get_args(ReportedSlotState)


def _known(values: tuple[str, ...], *, field: str, name: str) -> models.CheckConstraint:
    """Return a constraint that a column holds one of some values."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": values}), name=name)


class Fleet(models.Model):
    """The rollout fleet of a run: one manager at a time, and its last report.

    The desired state is not stored here: it follows from the run's status.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="fleet")
    # The one manager whose reports count. Empty: none may be running.
    incarnation = models.CharField(max_length=64, blank=True)
    actor_name = models.CharField(max_length=160, blank=True)
    attempt = models.PositiveIntegerField(default=0, help_text="Managers launched so far.")
    launched_at = models.DateTimeField(null=True, blank=True)
    # Launch times of recent managers: the launch budget counts these.
    recent_launches_at = ArrayField(models.DateTimeField(), default=list, blank=True)
    # Null until the cluster has accepted the manager launched at `launched_at`.
    placed_at = models.DateTimeField(null=True, blank=True)

    observed = models.CharField(
        max_length=16, choices=[(s, s) for s in FLEET_STATES], default="none"
    )
    observed_at = models.DateTimeField(
        null=True, blank=True, help_text="Last report of the current manager."
    )
    # Proof of the fleet's state. A new manager proves nothing before its first report.
    heard_at = models.DateTimeField(
        null=True, blank=True, help_text="Last report of any of its managers."
    )
    sequence = models.BigIntegerField(
        default=-1, help_text="Last report of this incarnation that was counted."
    )
    reason = models.TextField(
        blank=True, help_text="Why the observed state differs from the desired one."
    )
    is_final = models.BooleanField(
        default=False, help_text="It failed, and another fleet of the run would fail alike."
    )
    node_id = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Ray's id of the node where its manager is.",
    )
    env_steps_total = models.PositiveBigIntegerField(
        default=0, help_text="Env steps of the run, over every worker that ever was."
    )
    recent_returns = ArrayField(
        models.FloatField(), default=list, blank=True, help_text="Last training returns."
    )
    info_totals = models.JSONField(
        default=dict, blank=True, help_text="Sums of numeric values of `info` over the whole run."
    )

    class Meta:
        constraints = [
            _known(FLEET_STATES, field="observed", name="fleet_state_is_known"),
            models.CheckConstraint(
                condition=Q(incarnation="") | ~Q(actor_name=""), name="fleet_manager_has_a_name"
            ),
        ]

    def __str__(self) -> str:
        return f"fleet of run {self.run_id}"


class Outage(models.Model):
    """Failures of one cause that paused a run, or stopped one of its lessons.

    While it is open, the platform assigns probes: tasks of one problem.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="outages", db_index=False)
    lesson = models.CharField(max_length=64, blank=True, help_text="Empty for the whole run.")
    cause = models.CharField(max_length=16, choices=[(one, one) for one in CAUSES])
    reason = models.TextField(help_text="Failures and newest error at its begin.")
    began_at = models.DateTimeField()
    probes = models.PositiveIntegerField(default=0, help_text="Assigned so far.")
    # Outages in short succession are probed at the intervals of the first one.
    wait_step = models.PositiveIntegerField(default=0, help_text="Doublings of the interval.")
    probe_at = models.DateTimeField(help_text="Earliest time of the next probe.")
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "lesson"], condition=Q(ended_at=None), name="outage_open_is_one"
            )
        ]
        indexes = [models.Index(fields=["run", "-id"], name="outage_newest_first")]

    def __str__(self) -> str:
        return self.reason


class FleetWorker(models.Model):
    """A rollout worker as last reported by its manager."""

    fleet = models.ForeignKey(
        Fleet, on_delete=models.CASCADE, related_name="workers", db_index=False
    )
    index = models.PositiveIntegerField()
    incarnation = models.CharField(max_length=120)
    state = models.CharField(max_length=16, choices=[(s, s) for s in WORKER_STATES])
    reason = models.TextField(blank=True)
    heartbeat_at = models.DateTimeField()
    node = models.CharField(max_length=200, blank=True)
    node_id = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="As Ray calls the node."
    )
    pid = models.BigIntegerField(null=True, blank=True)
    restarts = models.PositiveIntegerField(default=0)
    # Steps of weight versions in the present epoch; -2 for none.
    announced_step = models.IntegerField(default=-2)
    staged_step = models.IntegerField(default=-2)
    active_step = models.IntegerField(default=-2)
    env_steps = models.PositiveBigIntegerField(default=0, help_text="Since this incarnation began.")
    env_steps_per_second = models.FloatField(default=0.0)
    fragments_cut = models.PositiveBigIntegerField(default=0)
    fragments_sent = models.PositiveBigIntegerField(default=0)
    to_send = models.PositiveIntegerField(default=0)
    outstanding = models.PositiveIntegerField(
        default=0, help_text="Fragments that the worker may start, fills or has not delivered."
    )
    dropped_steps = models.JSONField(default=dict, blank=True, help_text="Env steps by reason.")
    stages = models.JSONField(default=dict, blank=True, help_text="Windowed stage timings, ms.")
    time_use = models.TextField(blank=True, help_text="Where the worker's time goes.")
    shares = models.JSONField(default=dict, blank=True, help_text="Part of the time by stage.")
    last_log = models.TextField(
        blank=True, default="", db_default="", help_text="Newest line of its log, cut."
    )
    is_cordoned = models.BooleanField(
        default=False, db_default=False, help_text="Cordoned by its manager."
    )
    # Includes its env processes. Null: not measured.
    cpu_percent = models.FloatField(null=True, blank=True, help_text="Of one core.")
    memory_bytes = models.PositiveBigIntegerField(null=True, blank=True, help_text="Resident.")
    gpu_percent = models.FloatField(
        null=True, blank=True, help_text="Utilization of its device by all processes."
    )
    gpu_memory_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Memory in use on its device by all processes."
    )
    transfers = models.JSONField(
        default=dict, blank=True, help_text="Outcome of the offered weights."
    )
    unanswered_seconds = models.FloatField(
        default=0.0,
        db_default=0.0,
        help_text="Time for which its inference server has answered no request.",
    )
    replicas = models.JSONField(
        default=list, blank=True, help_text="Replicas of its inference server."
    )
    # Set by operators; reports change neither.
    restart_of = models.CharField(
        max_length=120,
        blank=True,
        default="",
        db_default="",
        help_text="Incarnation with a requested replacement.",
    )
    restart_reason = models.TextField(blank=True, default="", db_default="")
    cordoned_at = models.DateTimeField(
        null=True, blank=True, help_text="Time of the cordon request."
    )
    cordoned_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    cordon_reason = models.TextField(blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["fleet", "index"], name="fleet_worker_index_is_one"),
            _known(WORKER_STATES, field="state", name="fleet_worker_state_is_known"),
        ]

    def __str__(self) -> str:
        return f"worker {self.index} of fleet {self.fleet_id}"

    @property
    def is_to_restart(self) -> bool:
        """Whether a replacement was requested and has not started."""
        return self.restart_of == self.incarnation

    @property
    def cordon(self) -> str:
        """Progress of a requested cordon; empty if there is none."""
        if self.cordoned_at is None:
            return "lifting" if self.is_cordoned else ""
        if not self.is_cordoned:
            return "requested"
        return "out" if self.state == "stopped" else "draining"


class EnvSlot(models.Model):
    """One environment of a worker as last reported."""

    worker = models.ForeignKey(
        FleetWorker, on_delete=models.CASCADE, related_name="slots", db_index=False
    )
    slot = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=[(s, s) for s in SLOT_STATES])
    pid = models.BigIntegerField(null=True, blank=True)
    episodes = models.PositiveBigIntegerField(default=0)
    restarts = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["worker", "slot"], name="env_slot_is_one"),
            _known(SLOT_STATES, field="state", name="env_slot_state_is_known"),
        ]

    def __str__(self) -> str:
        return f"slot {self.slot} of worker {self.worker_id}"


class EpisodeWindow(models.Model):
    """Statistics of the episodes that ended at one worker within one report."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="episode_windows", db_index=False
    )
    at = models.DateTimeField()
    environment = models.CharField(max_length=200)
    worker = models.PositiveIntegerField()
    mode = models.CharField(max_length=8, choices=[("train", "train"), ("eval", "eval")])
    seconds = models.FloatField(help_text="Length of the window.")
    count = models.PositiveIntegerField(help_text="Episodes.")
    return_sum = models.FloatField()
    return_mean = models.FloatField()
    return_min = models.FloatField()
    return_max = models.FloatField()
    return_p10 = models.FloatField()
    return_p50 = models.FloatField()
    return_p90 = models.FloatField()
    discounted_return_mean = models.FloatField()
    length_mean = models.FloatField(help_text="Env steps.")
    length_max = models.PositiveIntegerField(help_text="Env steps.")
    terminated = models.PositiveIntegerField()
    truncated = models.PositiveIntegerField()
    aborted = models.PositiveIntegerField()
    # Individual values of the last episodes, for percentiles.
    returns = ArrayField(models.FloatField(), default=list, blank=True)
    lengths = ArrayField(
        models.PositiveIntegerField(), default=list, blank=True, help_text="Env steps."
    )
    # Env slots and numbers of the same episodes, then of the lowest, highest and longest one. They
    # identify the episodes in fragments.
    incarnation = models.CharField(
        max_length=120, blank=True, default="", help_text="Of the worker."
    )
    slots = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    numbers = ArrayField(
        models.PositiveBigIntegerField(),
        default=list,
        blank=True,
        help_text="Counts the episodes of each slot, from 1.",
    )
    policy_step = models.IntegerField(default=-2)
    # Position of the run when the window was stored: the x axes of the charts.
    env_steps_total = models.PositiveBigIntegerField(default=0)
    served_steps = models.PositiveIntegerField(default=0)
    recent_return_mean = models.FloatField(
        null=True, blank=True, help_text="Mean of the run's last 20 training returns."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(count__gte=1), name="episode_window_has_an_episode")
        ]
        indexes = [
            models.Index(fields=["run", "id"], name="episode_window_in_order"),
            BrinIndex(fields=["at"], name="episode_window_at"),
        ]

    def __str__(self) -> str:
        return f"{self.count} episodes of run {self.run_id}"


LOG_KINDS: Final = ("log", "stacks")


class LogRequest(models.Model):
    """A requested log of a fleet, and its last read lines.

    Of kind ``stacks``: the thread stacks of a worker.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="log_requests", db_index=False
    )
    worker = models.PositiveIntegerField(null=True, blank=True, help_text="Null: the manager.")
    slot = models.PositiveIntegerField(null=True, blank=True, help_text="Null: the worker's own.")
    kind = models.CharField(
        max_length=8, choices=[(s, s) for s in LOG_KINDS], default="log", db_default="log"
    )
    incarnation = models.CharField(
        max_length=120, blank=True, default="", db_default="", help_text="Of the worker asked."
    )
    # Id of the newest request: answers to earlier ones are rejected.
    request = models.UUIDField(default=uuid.uuid4)
    lines = models.PositiveIntegerField()
    asked_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True, blank=True)
    content = ArrayField(models.TextField(), default=list, blank=True)
    node = models.CharField(max_length=300, blank=True)
    path = models.TextField(blank=True)
    note = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "kind", "worker", "slot"],
                nulls_distinct=False,
                name="log_request_is_one",
            ),
            _known(LOG_KINDS, field="kind", name="log_request_kind_is_known"),
        ]

    def __str__(self) -> str:
        return f"log of run {self.run_id}, worker {self.worker}, slot {self.slot}"


RECORDING_STATES: Final = ("requested", "recording", "ready", "failed")


class Recording(models.Model):
    """A requested recording of an episode: requested → recording → ready | failed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="recordings", db_index=False
    )
    state = models.CharField(
        max_length=10, choices=[(s, s) for s in RECORDING_STATES], default="requested"
    )
    reason = models.TextField(blank=True, help_text="Reason of the failure.")
    requested_by = models.CharField(max_length=200, blank=True)
    requested_at = models.DateTimeField()
    wanted_worker = models.PositiveIntegerField(null=True, blank=True)
    wanted_slot = models.PositiveIntegerField(null=True, blank=True)
    environment = models.CharField(max_length=200, blank=True)
    # Recording worker and start.
    worker = models.PositiveIntegerField(null=True, blank=True)
    slot = models.PositiveIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    episode_return = models.FloatField(null=True, blank=True, help_text="Sum of its rewards.")
    episode_length = models.PositiveIntegerField(null=True, blank=True, help_text="Env steps.")
    outcome = models.CharField(max_length=12, blank=True)
    policy_step = models.IntegerField(default=-2, help_text="Version that acted at its end.")
    media_type = models.CharField(max_length=40, blank=True)
    frames = models.PositiveIntegerField(default=0)
    frames_left_out = models.PositiveIntegerField(default=0)
    frames_per_second = models.FloatField(null=True, blank=True)
    width = models.PositiveIntegerField(default=0)
    height = models.PositiveIntegerField(default=0)
    note = models.TextField(blank=True, help_text="Why the recording is not a video.")
    size_bytes = models.PositiveIntegerField(default=0)
    file = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=RECORDING_STATES), name="recording_state_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(state="ready") | ~Q(file=""), name="recording_ready_has_a_film"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "-requested_at"], name="recording_newest_first"),
            models.Index(
                fields=["run"],
                condition=Q(state__in=["requested", "recording"]),
                name="recording_under_way",
            ),
        ]

    def __str__(self) -> str:
        return f"recording {self.pk} of run {self.run_id}"


# Incarnations of workers.


class WorkerAttempt(models.Model):
    """One incarnation of a rollout worker, from its first report to its end."""

    fleet = models.ForeignKey(
        Fleet, on_delete=models.CASCADE, related_name="attempts", db_index=False
    )
    worker = models.PositiveIntegerField(help_text="Index of the worker.")
    incarnation = models.CharField(max_length=120)
    started_at = models.DateTimeField(help_text="Time of the first report.")
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True, help_text="Reason of the end.")
    # As last reported; while the worker is running, its own row is newer.
    node = models.CharField(max_length=200, blank=True)
    pid = models.BigIntegerField(null=True, blank=True)
    env_steps = models.PositiveBigIntegerField(default=0)
    fragments_sent = models.PositiveBigIntegerField(default=0)
    lost_steps = models.PositiveBigIntegerField(
        default=0, help_text="Env steps in incomplete fragments at the last report."
    )
    unsent_fragments = models.PositiveBigIntegerField(
        default=0, help_text="Fragments in its spool at the last report; another worker sends them."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["fleet", "incarnation"], name="worker_attempt_incarnation_is_one"
            )
        ]
        indexes = [
            models.Index(fields=["fleet", "worker", "-id"], name="worker_attempt_newest_first"),
            models.Index(
                fields=["fleet"], condition=models.Q(ended_at=None), name="worker_attempt_open"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.incarnation} of worker {self.worker} of fleet {self.fleet_id}"


# Cordons of machines, and samples of their usage.


class MachineCordon(models.Model):
    """A cordoned machine: no workers and no managers are placed on it.

    It outlives its node: a machine that rejoins the cluster has a new id, see
    :func:`rollouts.control.services.machines.follow_machines`.
    """

    node = models.CharField(max_length=64, unique=True, help_text="As Ray calls it.")
    host = models.CharField(max_length=200, blank=True)
    siblings = ArrayField(
        models.CharField(max_length=64),
        default=list,
        blank=True,
        help_text="Other nodes of the host at the time of the cordon.",
    )
    reason = models.TextField()
    cordoned_at = models.DateTimeField()
    cordoned_by = models.CharField(max_length=200)

    def __str__(self) -> str:
        return f"cordon of {self.host or self.node}"


class MachineSample(models.Model):
    """Usage of a machine in one minute, as reported by one of its workers; kept for a week."""

    node = models.CharField(max_length=64, help_text="As Ray calls it.")
    at = models.DateTimeField(help_text="Beginning of the minute.")
    cpu_cores = models.FloatField(help_text="Mean number of busy cores.")
    cpus = models.PositiveIntegerField()
    memory_bytes = models.PositiveBigIntegerField(help_text="Not available to new processes.")
    memory_total_bytes = models.PositiveBigIntegerField()
    gpus = models.PositiveIntegerField(default=0)
    gpu_percent = models.FloatField(null=True, blank=True, help_text="Mean over its GPUs.")
    gpu_memory_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Used memory of all GPUs."
    )
    gpu_memory_total_bytes = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "at"], name="machine_sample_is_one")]
        indexes = [BrinIndex(fields=["at"], name="machine_sample_at")]

    def __str__(self) -> str:
        return f"{self.node} at {self.at:%Y-%m-%d %H:%M}"


# Weight syncs to workers.


class WeightsDelivery(models.Model):
    """Times at which a worker reported that it was notified of, held, and used a version.

    If a worker received a later version first, some times stay empty. Times are those of the
    reports, about one second apart.
    """

    fleet = models.ForeignKey(
        Fleet, on_delete=models.CASCADE, db_index=False, related_name="deliveries"
    )
    epoch = models.PositiveIntegerField()
    step = models.IntegerField()
    worker = models.PositiveIntegerField(help_text="Its index in the fleet.")
    announced_at = models.DateTimeField(null=True, blank=True)
    staged_at = models.DateTimeField(null=True, blank=True)
    active_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "weights deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["fleet", "epoch", "step", "worker"], name="weights_delivery_is_one"
            )
        ]

    def __str__(self) -> str:
        return f"{self.epoch}.{self.step} to worker {self.worker} of fleet {self.fleet_id}"
