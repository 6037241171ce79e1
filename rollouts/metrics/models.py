"""Metrics of trainers and the platform, and annotations of charts."""

from django.db import models
from django.db.models import F, Q

from runs.lifecycle.models import Run


class MetricSeries(models.Model):
    """All samples of one name in one run."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="metric_series"
    )
    name = models.CharField(max_length=120)
    chunks = models.PositiveIntegerField(default=0, help_text="Packed so far.")
    # Position of the newest packed sample; null: none is packed.
    packed_step = models.BigIntegerField(null=True, blank=True)
    packed_value = models.FloatField(null=True, blank=True)
    packed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "metric series"
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="metric_series_is_one")]

    def __str__(self) -> str:
        return self.name


class MetricSample(models.Model):
    """One recorded value, until it is packed. Ids are in order of arrival."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="metric_samples"
    )
    series = models.ForeignKey(
        MetricSeries, on_delete=models.CASCADE, db_index=False, related_name="samples"
    )
    step = models.BigIntegerField(help_text="The trainer's own counter: its train step.")
    value = models.FloatField(help_text="May be NaN or infinite.")
    at = models.DateTimeField()
    amount = models.BigIntegerField(
        default=0,
        help_text="Tokens that the run had served by then; env steps made, of a fleet run.",
    )

    class Meta:
        indexes = [
            models.Index(fields=["series", "id"], name="metric_sample_by_series"),
            models.Index(fields=["run", "id"], name="metric_sample_in_order"),
        ]

    def __str__(self) -> str:
        return f"{self.value} at step {self.step}"


class MetricChunk(models.Model):
    """Consecutive samples of one series, packed: never changed, never deleted alone.

    Columns are big-endian and in order of arrival: int64 for positions, float64 for values. Blocks
    are those of :mod:`rollouts.metrics.rules`, one column for each chart axis.
    """

    series = models.ForeignKey(
        MetricSeries, on_delete=models.CASCADE, db_index=False, related_name="packed"
    )
    number = models.PositiveIntegerField(help_text="Counts the chunks of its series from 0.")
    samples = models.PositiveIntegerField()
    step_min = models.BigIntegerField()
    step_max = models.BigIntegerField()
    time_min = models.BigIntegerField(help_text="µs since 1970.")
    time_max = models.BigIntegerField(help_text="µs since 1970.")
    amount_min = models.BigIntegerField()
    amount_max = models.BigIntegerField()
    steps = models.BinaryField()
    times = models.BinaryField(help_text="µs since 1970.")
    amounts = models.BinaryField()
    # `values` is a method of every queryset.
    numbers = models.BinaryField(help_text="The values.")
    by_step = models.BinaryField()
    by_time = models.BinaryField()
    by_amount = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "number"], name="metric_chunk_is_one"),
            models.CheckConstraint(
                condition=models.Q(samples__gte=1), name="metric_chunk_has_a_sample"
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.number} of series {self.series_id}"


class TokenTally(models.Model):
    """Number of served tokens of a run, so that its batches are added only once."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="token_tally")
    ordinal = models.PositiveIntegerField(default=0, help_text="Of the last batch that is counted.")
    tokens = models.PositiveBigIntegerField(default=0, help_text="In the batches up to it.")

    def __str__(self) -> str:
        return f"tokens of run {self.run_id}"


class MeasureCursor(models.Model):
    """Progress of the built-in measurements of a run: the next one continues from here."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="measure_cursor")
    measured_at = models.DateTimeField(null=True, blank=True)
    was_quiet = models.BooleanField(
        default=True, help_text="Nothing had happened; none is taken before something does."
    )
    # Counters at that time: while they are unchanged, there is nothing to measure.
    accepted = models.BigIntegerField(default=0, help_text="Groups or fragments.")
    queued = models.BigIntegerField(default=0, help_text="Sequences or fragments.")
    without_variance = models.BigIntegerField(
        default=0, help_text="Groups that were dropped as they came, for zero variance."
    )
    served_steps = models.BigIntegerField(default=0)
    env_steps = models.BigIntegerField(default=0)
    amount = models.BigIntegerField(default=0, help_text="Tokens handed out, or env steps made.")
    # Columns of run lists, also used for sorting.
    accepted_per_second = models.FloatField(
        null=True, blank=True, help_text="Groups or fragments; null before the second measurement."
    )
    staleness_p50 = models.FloatField(
        null=True, blank=True, help_text="Staleness of the last served batch, in versions."
    )
    reward_mean = models.FloatField(
        null=True, blank=True, help_text="Mean score of the groups, or return, last measured."
    )
    # Last processed batch and groups.
    batch = models.BigIntegerField(default=0, help_text="Its ordinal.")
    episode_window = models.BigIntegerField(default=0)
    group = models.BigIntegerField(default=0)
    group_written_in = models.BigIntegerField(default=0, help_text="Number of its transaction.")
    digest = models.BigIntegerField(default=0, help_text="Of this group.")
    digest_written_in = models.BigIntegerField(default=0)
    info_totals = models.JSONField(default=dict, blank=True, help_text="Of the fleet.")
    weights_totals = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="Transfers of weights to its workers.",
    )

    def __str__(self) -> str:
        return f"measurements of run {self.run_id}"


TEXT_LENGTH = 200


class Annotation(models.Model):
    """A short text at a position of a run's charts. Deleted rows are kept, but hidden."""

    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, db_index=False, related_name="annotations"
    )
    text = models.CharField(max_length=TEXT_LENGTH)
    at = models.DateTimeField(help_text="Annotated time.")
    # Null: the position on this axis is unknown, and charts over it do not show the annotation.
    step = models.BigIntegerField(null=True, blank=True, help_text="Train step of that moment.")
    amount = models.BigIntegerField(
        null=True, blank=True, help_text="Tokens served by then; env steps made, of a fleet run."
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    deleted_at = models.DateTimeField(null=True, blank=True)
    deleted_by = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [
            models.Index(
                F("run"), F("at").desc(), condition=Q(deleted_at=None), name="annotation_of_run"
            )
        ]

    def __str__(self) -> str:
        return self.text
