"""Runs, their trainers, environments, policy versions and notes."""

from typing import Final

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Max, Q

from runs.lifecycle.rules import ACTIVE, RunStatus, is_run_uid, parse_archived

# Runs and their trainers, environments, policy versions and tokens.

# As :data:`runs.lifecycle.rules.RUN_UID` describes it.
NEW_RUN_UID: Final = models.Func(
    template="'run_' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 24)",
    output_field=models.CharField(),
)


class RunKind(models.TextChoices):
    """Producer of a run's data."""

    FLEET = "fleet", "fleet: rolled out by workers that this platform launches"
    LANGUAGE = "language", "language: groups that workers of this platform generate"
    OUTSIDE = "outside", "outside: pushed by environments that run elsewhere"


class AdvantageRule(models.TextChoices):
    """Estimator of the advantages of a group."""

    RLOO = "rloo", "RLOO: less the mean of the others"
    GRPO = "grpo", "GRPO: less the mean, over the deviation"


class OverlongSequences(models.TextChoices):
    """Treatment of groups with a sequence longer than `max_token_len`."""

    KEEP = "keep", "keep: accepted unchanged"
    DROP = "drop", "drop: the group is dropped"
    TRUNCATE = "truncate", "truncate: sequences are cut at the maximum"


class UnscoredSequences(models.TextChoices):
    """Treatment of pushed groups with sequences without a score."""

    REFUSE = "refuse", "refuse: the push is refused"
    DROP = "drop", "drop: the group is dropped"
    SHRINK = "shrink", "shrink: the group is accepted without them"


class SecondRegistration(models.TextChoices):
    """Effect of a stock trainer's registration on a run that has one."""

    KEEP = "keep", "keep: the run continues"
    RESET = "reset", "reset: the run is archived, and a new one begins"


class RunQuerySet(models.QuerySet["Run"]):
    """Queries for runs."""

    def active(self) -> "RunQuerySet":
        """Runs that have not ended."""
        return self.filter(status__in=ACTIVE)

    def current(self) -> "RunQuerySet":
        """Runs that are not archived."""
        return self.filter(archived_at=None)

    def at(self, address: str) -> "Run | None":
        """Return the run with an id, or at a name: the current one, else the one archived last."""
        if is_run_uid(address):
            return self.filter(uid=address).first()
        newest_first = F("archived_at").desc(nulls_first=True)
        run = self.filter(name=address).order_by(newest_first, "-id").first()
        if run is not None or (parts := parse_archived(address)) is None:
            return run
        return self.filter(name=parts.name, pk=parts.run_id).first()

    def first_epoch(self, name: str) -> int:
        """Return the epoch in which a new run of a name begins.

        Inference servers, folders of weights and producers address a run by its name. Epochs
        continue over all runs of a name, deleted ones included, so that (epoch, step) names one
        version for all of them.
        """
        known = (self.filter(name=name), RunDeletion.objects.filter(name=name))
        newest = [rows.aggregate(newest=Max("epoch"))["newest"] or 0 for rows in known]
        return max(newest) + 1 if any(newest) else 0


_RunManager = models.Manager.from_queryset(RunQuerySet)


class RunManager(_RunManager["Run"]):
    """Manager that hides deleted runs, whose rows are being removed."""

    def get_queryset(self) -> RunQuerySet:
        """Return the runs that are not deleted."""
        return RunQuerySet(self.model, using=self._db).filter(deleted_at=None)


class Run(models.Model):
    """One training run: registration, configuration, lifecycle."""

    name = models.SlugField(max_length=80, help_text="Part of every URL of the run.")
    uid = models.CharField(
        max_length=28,
        unique=True,
        editable=False,
        db_default=NEW_RUN_UID,
        help_text="Immutable id.",
    )
    kind = models.CharField(max_length=16, choices=RunKind)
    # The Atropos routes at the server root serve the one current run that has this set.
    is_default = models.BooleanField(default=False)
    status = models.CharField(
        max_length=16, choices=[(s, s) for s in RunStatus], default=RunStatus.DRAFT
    )
    status_reason = models.TextField(blank=True)
    status_changed_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True, help_text="Time of the last start.")
    # Final status of a draining run, and its deadline.
    drain_target = models.CharField(max_length=16, blank=True)
    drain_deadline_at = models.DateTimeField(null=True, blank=True)
    config = models.JSONField(default=dict, help_text="A RunConfig; empty for outside runs.")
    preset = models.CharField(max_length=80, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)
    # Set with `archived_at`; a job removes the row after all others of the run.
    deleted_at = models.DateTimeField(null=True, blank=True)
    project = models.ForeignKey(
        "runs.Project", null=True, blank=True, on_delete=models.SET_NULL, related_name="runs"
    )
    tags = ArrayField(models.CharField(max_length=40), default=list, blank=True)
    # Search terms for filters: its environments and lessons, in lower case.
    environment_words = ArrayField(models.CharField(max_length=220), default=list, blank=True)

    # Registration settings, from the first trainer or from the configuration.
    registered_at = models.DateTimeField(null=True, blank=True)
    wandb_group = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001 null is an answer of the wire
    wandb_project = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001
    batch_size = models.PositiveIntegerField(
        null=True, blank=True, help_text="Fragments (fleet run) or sequences (others)."
    )
    max_token_len = models.PositiveIntegerField(null=True, blank=True)
    checkpoint_dir = models.TextField(blank=True)
    save_checkpoint_interval = models.IntegerField(default=0)
    starting_step = models.PositiveIntegerField(default=0)
    num_steps = models.IntegerField(default=0)
    ends_at_num_steps = models.BooleanField(
        default=True, db_default=True, help_text="Complete the run after `num_steps` train steps."
    )
    num_workers = models.PositiveIntegerField(
        null=True, blank=True, help_text="Requested rollout workers; empty for as configured."
    )
    max_staleness = models.PositiveIntegerField(
        null=True, blank=True, help_text="Policy versions; empty for no limit."
    )
    max_age_seconds = models.FloatField(
        null=True, blank=True, help_text="Maximum age of queued items; empty for no limit."
    )
    off_policy_tolerance = models.FloatField(
        default=3.0, help_text="Queued batches before producers pause."
    )
    exact_queue_size = models.BooleanField(
        default=False, help_text="Report the exact queue size, even above the tolerance."
    )
    lease_seconds = models.FloatField(default=600.0)
    lenient = models.BooleanField(default=False)
    advantages = models.CharField(
        max_length=8,
        blank=True,
        choices=AdvantageRule,
        help_text="Rule that computes missing advantages of groups; empty for none.",
    )
    drop_zero_variance = models.BooleanField(
        default=False, help_text="Drop groups whose scores are all equal."
    )
    overlong_sequences = models.CharField(
        max_length=8,
        choices=OverlongSequences,
        default=OverlongSequences.KEEP,
        db_default=OverlongSequences.KEEP,
        help_text="Treatment of groups with a sequence longer than `max_token_len`.",
    )
    unscored_sequences = models.CharField(
        max_length=8,
        choices=UnscoredSequences,
        default=UnscoredSequences.REFUSE,
        db_default=UnscoredSequences.REFUSE,
        help_text="Treatment of pushed groups with sequences whose score is null.",
    )
    least_group_size = models.PositiveIntegerField(
        default=2, db_default=2, help_text="Smallest group that is accepted without sequences."
    )
    on_second_registration = models.CharField(
        max_length=8,
        choices=SecondRegistration,
        default=SecondRegistration.KEEP,
        db_default=SecondRegistration.KEEP,
        help_text="Effect of `POST /register` on a run that has a trainer.",
    )
    refused = models.JSONField(
        null=True,
        blank=True,
        help_text="Refused pushes that named none of its environments, counted by reason.",
    )
    dry_deadline_seconds = models.FloatField(
        null=True,
        blank=True,
        default=30.0,
        help_text="Time that a batch waits for an environment's minimum; empty for no limit.",
    )

    # Training progress.
    trainer_started_at = models.DateTimeField(
        null=True, blank=True, help_text="Time of the first batch request."
    )
    served_steps = models.PositiveIntegerField(default=0, help_text="Batches served so far.")
    epoch = models.PositiveIntegerField(
        default=0, help_text="Trainer sessions opened so far in runs of this name."
    )
    policy_step = models.IntegerField(default=-2, help_text="Current version; -2 for none.")
    # Set when the queue exceeds the tolerance, until it falls below the lower mark.
    over_tolerance = models.BooleanField(default=False)
    over_tolerance_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the queue exceeded the tolerance."
    )
    # Problem found by the last audit of the ledger.
    ledger_problem = models.TextField(blank=True)

    objects = RunManager()
    with_deleted = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(archived_at=None), name="run_name_is_taken_once"
            ),
            models.UniqueConstraint(
                fields=["is_default"],
                condition=Q(is_default=True, archived_at=None),
                name="run_default_is_one",
            ),
            models.CheckConstraint(
                condition=Q(status__in=list(RunStatus)), name="run_status_is_known"
            ),
            models.CheckConstraint(
                condition=Q(advantages__in=["", *AdvantageRule.values]),
                name="run_advantage_rule_is_known",
            ),
            models.CheckConstraint(
                condition=Q(batch_size=None) | Q(batch_size__gte=1),
                name="run_batch_size_is_positive",
            ),
            models.CheckConstraint(
                condition=~Q(status=RunStatus.DRAINING) | ~Q(drain_target=""),
                name="run_draining_has_a_target",
            ),
            models.CheckConstraint(
                condition=Q(deleted_at=None) | Q(archived_at__isnull=False),
                name="run_deleted_is_archived",
            ),
        ]
        indexes = [
            models.Index(F("created_at").desc(), name="run_newest_first"),
            # Read every few seconds, so independent of the number of ended runs.
            models.Index(
                fields=["status"],
                condition=Q(archived_at=None, status__in=[*sorted(ACTIVE), RunStatus.FAILED]),
                name="run_under_way",
            ),
            models.Index(
                fields=["id"], condition=~Q(ledger_problem=""), name="run_with_ledger_problem"
            ),
            GinIndex(fields=["tags"], name="run_tags"),
            GinIndex(fields=["environment_words"], name="run_environment_words"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def address(self) -> str:
        """Address of the run: its name, and its id once it is archived."""
        return self.name if self.archived_at is None else f"{self.name}--{self.pk}"

    @property
    def has_fleet(self) -> bool:
        """Whether the platform launches workers for it."""
        return self.kind != RunKind.OUTSIDE

    @property
    def current_step(self) -> int:
        """Train steps so far, including those before the run."""
        return self.starting_step + self.served_steps

    @property
    def steps_left(self) -> int | None:
        """Train steps until `num_steps`; None without a planned number."""
        return max(0, self.num_steps - self.current_step) if self.num_steps > 0 else None

    @property
    def has_served_all_steps(self) -> bool:
        """Whether no further batch is served, because the planned number is reached."""
        return self.ends_at_num_steps and self.steps_left == 0

    @property
    def awaits_next_training(self) -> bool:
        """Whether the training of an outside run is over: the next one begins a new run."""
        is_over = self.status == RunStatus.COMPLETED or (
            self.status == RunStatus.DRAINING and self.has_served_all_steps
        )
        return self.kind == RunKind.OUTSIDE and is_over

    @property
    def takes_groups(self) -> bool:
        """Whether its items are trajectory groups; fragments otherwise."""
        return self.kind != RunKind.FLEET


class Trainer(models.Model):
    """A registered consumer of a run's batches."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trainers", db_index=False)
    uuid = models.PositiveBigIntegerField(unique=True)
    # Token, Basic user or client address, which may take over a lease after a restart.
    identity = models.CharField(max_length=200)
    name = models.CharField(max_length=200, blank=True)
    is_stock = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Requests batches by the Atropos routes, which have no acknowledgement.",
    )
    differences = models.JSONField(
        null=True,
        blank=True,
        help_text="Settings of its registration that differ from those of the run.",
    )
    epoch = models.PositiveIntegerField(default=0)
    registered_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "identity"], name="trainer_identity_is_one")
        ]

    def __str__(self) -> str:
        return f"{self.name or self.identity} of {self.run_id}"


class Environment(models.Model):
    """A registered producer of data in a run."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="environments", db_index=False
    )
    env_id = models.PositiveIntegerField(help_text="Number within the run, from 0.")
    desired_name = models.CharField(max_length=200)
    wandb_name = models.CharField(max_length=220)
    spec = models.CharField(max_length=200, blank=True)
    weight = models.FloatField(default=1.0)
    max_token_length = models.PositiveIntegerField(default=0)
    group_size = models.PositiveIntegerField(default=1)
    min_batch_allocation = models.FloatField(null=True, blank=True)
    connected = models.BooleanField(default=True)
    muted = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Its pushes are counted as dropped and not trained on.",
    )
    refused = models.JSONField(
        null=True, blank=True, help_text="Refused pushes, counted by reason."
    )
    registered_at = models.DateTimeField()
    held_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which a status first held it back; empty while it may produce.",
    )
    last_seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "env_id"], name="environment_id_is_one"),
            models.CheckConstraint(
                condition=Q(group_size__gte=1), name="environment_group_size_is_positive"
            ),
        ]

    def __str__(self) -> str:
        return self.wandb_name


class EnvironmentNumbers(models.Model):
    """Numbers of an environment's groups that are not in its series yet.

    Digests add them; the next measurement of the run takes them. Environments of one name share a
    row.
    """

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="environment_numbers"
    )
    environment = models.CharField(max_length=200, help_text="Name; empty if groups name none.")
    keys = ArrayField(models.CharField(max_length=120), default=list)
    pending = models.JSONField(default=dict, help_text="Sum and count of the values by key.")
    ignored = models.JSONField(
        default=dict, help_text="Values that are in no series by problem, with the newest key."
    )

    class Meta:
        verbose_name_plural = "environment numbers"
        constraints = [
            models.UniqueConstraint(
                fields=["run", "environment"], name="environment_numbers_are_one"
            )
        ]
        indexes = [
            models.Index(
                fields=["run"], condition=~Q(pending={}), name="environment_numbers_pending"
            )
        ]

    def __str__(self) -> str:
        return f"numbers of {self.environment} in run {self.run_id}"


class PolicyVersion(models.Model):
    """Weights that a trainer published."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="policy_versions", db_index=False
    )
    epoch = models.PositiveIntegerField()
    step = models.IntegerField()
    trainer = models.ForeignKey(Trainer, null=True, blank=True, on_delete=models.SET_NULL)
    manifest = models.JSONField(help_text="Names, shapes and dtypes of the tensors.")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    # Empty once a newer version has evicted the file; the row stays.
    file = models.FileField(upload_to="weights", blank=True)
    published_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "epoch", "step"], name="policy_version_is_published_once"
            ),
            models.CheckConstraint(condition=Q(step__gte=-1), name="policy_version_is_real"),
        ]

    def __str__(self) -> str:
        return f"{self.epoch}.{self.step} of {self.run_id}"


class RunDeletion(models.Model):
    """The deletion of a run: its request and its progress. The row outlives the run."""

    run_number = models.PositiveBigIntegerField(unique=True, help_text="Primary key of the run.")
    run_uid = models.CharField(max_length=28, unique=True, help_text="Immutable id of the run.")
    name = models.CharField(max_length=80, db_index=True)
    epoch = models.PositiveIntegerField(help_text="Newest epoch of the run.")
    reason = models.TextField()
    requested_by = models.CharField(max_length=200)
    requested_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    items = models.PositiveBigIntegerField(help_text="Groups or fragments at the request.")
    size_bytes = models.PositiveBigIntegerField(help_text="Stored bytes at the request.")
    removed_items = models.PositiveBigIntegerField(default=0)
    removed_rows = models.PositiveBigIntegerField(default=0, help_text="Of all tables.")
    removed_bytes = models.PositiveBigIntegerField(default=0)
    problem = models.TextField(blank=True, help_text="Why the last step failed.")

    class Meta:
        indexes = [
            models.Index(
                fields=["id"], condition=Q(finished_at=None), name="run_deletion_unfinished"
            )
        ]

    def __str__(self) -> str:
        return f"deletion of {self.name}"


# Notes of runs.


class RunNote(models.Model):
    """One revision of a run's notes. Rows are immutable: each edit adds one."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, db_index=False, related_name="notes")
    revision = models.PositiveIntegerField(help_text="Number of the edit, from 1.")
    text = models.TextField(blank=True, help_text="Markdown; empty after the notes were cleared.")
    author = models.CharField(max_length=200, help_text="A user or a token.")
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "revision"], name="run_note_revision_is_one"),
            models.CheckConstraint(
                condition=models.Q(revision__gte=1), name="run_note_revision_counts_from_one"
            ),
        ]

    def __str__(self) -> str:
        return f"notes of run {self.run_id}, revision {self.revision}"
