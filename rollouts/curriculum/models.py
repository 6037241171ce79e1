"""Models of the lessons of a language run."""

import uuid
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from rollouts.lessons.rules.lessons import LessonStatus
from runs.lifecycle.models import Run

EVALUATION_STATES: Final = ("queued", "leased", "done", "failed", "lost")
OPEN_EVALUATIONS: Final = ("queued", "leased")
_STATUSES: Final = [(str(status), str(status)) for status in LessonStatus]
STOPPED: Final = "stopped"
HOLDS: Final = ("", str(LessonStatus.LOCKED), str(LessonStatus.ACTIVE), STOPPED)
"""Hold of a lesson by a person, or after a failure that stops it; empty: the curriculum decides."""
_MODES: Final = ("train", "eval", "micro_eval")


class Curriculum(models.Model):
    """Curriculum state common to all lessons of a run."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="curriculum")
    tasks = models.PositiveBigIntegerField(default=0, help_text="Training tasks handed out.")
    # The newest round of evaluations, and the version at which it was due.
    round = models.PositiveIntegerField(default=0)
    round_epoch = models.PositiveIntegerField(default=0)
    round_step = models.IntegerField(default=-2)
    # The version of the last recorded curriculum metrics.
    measured_epoch = models.PositiveIntegerField(default=0)
    measured_step = models.IntegerField(default=-2)
    completed_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when every lesson has been graduated."
    )
    limit_reached_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when the maximum of rollouts is assigned."
    )
    # When the groups of assigned problems were last followed, and the epoch whose beginning was.
    followed_at = models.DateTimeField(null=True, blank=True)
    followed_epoch = models.PositiveIntegerField(default=0, db_default=0)
    steerings = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Rises when a person steers, and when a worker asks under it.",
    )
    awaited = ArrayField(
        models.CharField(max_length=160),
        default=list,
        blank=True,
        help_text="Workers that have not asked for a task since a person last steered.",
    )

    class Meta:
        verbose_name_plural = "curricula"

    def __str__(self) -> str:
        return f"curriculum of run {self.run_id}"


class Lesson(models.Model):
    """One lesson of a run: its progress, and its weight in sampling."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="lessons", db_index=False)
    name = models.CharField(max_length=64)
    # Several lessons are locked in this order; lessons follow their requirements.
    position = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=_STATUSES)
    reason = models.TextField(blank=True, help_text="Reason of the current status.")
    changed_at = models.DateTimeField(null=True, blank=True)
    # Performance as serialized by `rollouts.curriculum.rules`.
    training = models.BinaryField(default=bytes)
    evaluation = models.BinaryField(default=bytes)
    success = models.FloatField(help_text="As the strategy sees it.")
    weight = models.FloatField(help_text="Sampling weight; 0 unless the lesson is active.")
    # Training counters.
    examples = models.PositiveBigIntegerField(default=0, help_text="Handed out so far.")
    pass_size = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Problems of one pass; 0 if the lesson has no end."
    )
    outcomes = models.PositiveBigIntegerField(default=0, help_text="Told so far, in any mode.")
    samples = models.PositiveBigIntegerField(default=0, help_text="Episodes of training.")
    groups = models.PositiveBigIntegerField(default=0)
    zero_variance_groups = models.PositiveBigIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    truncated = models.PositiveBigIntegerField(default=0, help_text="Episodes.")
    duplicates = models.PositiveBigIntegerField(default=0, help_text="Episodes.")
    failed = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Episodes that failed or have no score."
    )
    refilled = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Episodes that took the place of failed ones."
    )
    lost_siblings = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Complete episodes of groups dropped as short."
    )
    # Errors.
    errors = models.PositiveBigIntegerField(default=0)
    last_error = models.TextField(blank=True)
    told_of_error_at = models.DateTimeField(null=True, blank=True)
    # The evaluation at graduation: the reference for detecting a regression.
    graduated_successes = models.PositiveIntegerField(default=0)
    graduated_samples = models.PositiveIntegerField(default=0)
    has_regressed = models.BooleanField(default=False)
    last_evaluation = models.ForeignKey(
        "Evaluation", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Manual control.
    hold = models.CharField(
        max_length=12,
        choices=[(one, one) for one in HOLDS],
        blank=True,
        default="",
        db_default="",
        help_text="Where a person or a failure holds it; empty: the curriculum decides.",
    )
    ruled_status = models.CharField(
        max_length=12,
        choices=_STATUSES,
        blank=True,
        default="",
        db_default="",
        help_text="Status before the hold, restored after it.",
    )
    weight_factor = models.FloatField(
        default=1.0, db_default=1.0, help_text="Factor on the sampling weight, set by a person."
    )
    steered_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    steered_reason = models.TextField(blank=True, default="", db_default="")
    steered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="lesson_name_is_one"),
            models.CheckConstraint(
                condition=Q(status__in=list(LessonStatus)), name="lesson_status_is_known"
            ),
            models.CheckConstraint(condition=Q(weight__gte=0), name="lesson_weight_is_positive"),
            models.CheckConstraint(condition=Q(hold__in=HOLDS), name="lesson_hold_is_known"),
            models.CheckConstraint(
                condition=Q(weight_factor__gt=0), name="lesson_weight_factor_is_positive"
            ),
        ]
        indexes = [models.Index(fields=["run", "position"], name="lesson_in_order")]

    def __str__(self) -> str:
        return f"{self.name} of run {self.run_id}"


class LessonChange(models.Model):
    """A status change or steering of a lesson, with actor and reason. Rows are immutable."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="lesson_changes", db_index=False
    )
    lesson = models.CharField(max_length=64)
    at = models.DateTimeField()
    source = models.CharField(max_length=12, choices=_STATUSES)
    target = models.CharField(max_length=12, choices=_STATUSES)
    reason = models.TextField()
    actor = models.CharField(
        max_length=200,
        default="curriculum",
        db_default="curriculum",
        help_text="Who decided: the curriculum, or a person.",
    )
    figures = models.JSONField(default=dict, blank=True)
    # The run's version at that time.
    epoch = models.PositiveIntegerField()
    policy_step = models.IntegerField()

    class Meta:
        indexes = [models.Index(fields=["run", "-id"], name="lesson_change_newest_first")]

    def __str__(self) -> str:
        return f"{self.lesson}: {self.source} → {self.target}"


class LessonOutcome(models.Model):
    """Outcome of a task as reported by its worker, unique by key. Rows are immutable."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="lesson_outcomes", db_index=False
    )
    key = models.CharField(max_length=200)
    lesson = models.CharField(max_length=64)
    at = models.DateTimeField()
    worker = models.CharField(max_length=120)
    mode = models.CharField(max_length=12, choices=[(mode, mode) for mode in _MODES])
    epoch = models.PositiveIntegerField()
    policy_step = models.IntegerField()
    counted = models.BooleanField(help_text="Whether the curriculum learnt from it.")
    samples = models.PositiveIntegerField(help_text="Episodes.")
    successes = models.PositiveIntegerField()
    reward_mean = models.FloatField(null=True, blank=True)
    seconds = models.FloatField(default=0.0)
    error = models.TextField(blank=True)
    failures = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Failed episodes and their newest error, by cause.",
    )
    answers = models.JSONField(
        default=list, blank=True, help_text="Sample answers of a micro-evaluation."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="lesson_outcome_is_unique")
        ]
        indexes = [
            BrinIndex(fields=["at"], name="lesson_outcome_at"),
            models.Index(
                fields=["run", "lesson", "-id"],
                condition=Q(mode="micro_eval"),
                name="lesson_micro_newest_first",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lesson} by {self.worker}"


class Evaluation(models.Model):
    """An evaluation of a lesson: queued → leased → done, or ended after too many attempts.

    It has failed if the environment yielded no valid rollouts, and is lost if its workers were.
    An expired lease passes to the next worker with a higher fence; requests with an older fence are
    rejected.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="evaluations", db_index=False
    )
    lesson = models.CharField(max_length=64)
    position = models.PositiveIntegerField(help_text="Of the lesson.")
    round = models.PositiveIntegerField()
    # The version at which it was due: workers with an older one may not lease it.
    epoch = models.PositiveIntegerField()
    due_step = models.IntegerField()
    state = models.CharField(
        max_length=8, choices=[(s, s) for s in EVALUATION_STATES], default="queued"
    )
    created_at = models.DateTimeField()
    worker = models.CharField(max_length=120, blank=True)
    fence = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Of the lease.")
    finished_at = models.DateTimeField(null=True, blank=True)
    policy_step = models.IntegerField(default=-2, help_text="Version that was evaluated.")
    figures = models.JSONField(default=dict, blank=True)
    samples = models.JSONField(default=list, blank=True)
    reason = models.TextField(
        blank=True, help_text="Reason of the loss, or error of the last attempt."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=EVALUATION_STATES), name="evaluation_state_is_known"
            ),
            # So that results of one lesson arrive in the order of their rounds.
            models.UniqueConstraint(
                fields=["run", "lesson"],
                condition=Q(state__in=OPEN_EVALUATIONS),
                name="evaluation_open_is_one",
            ),
            models.CheckConstraint(
                condition=~Q(state="leased") | Q(expires_at__isnull=False),
                name="evaluation_lease_ends",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "lesson", "-round"], name="evaluation_newest_first"),
            models.Index(
                fields=["run", "round", "position"],
                condition=Q(state__in=OPEN_EVALUATIONS),
                name="evaluation_to_do",
            ),
        ]

    def __str__(self) -> str:
        return f"evaluation of {self.lesson} of run {self.run_id}, round {self.round}"
