"""Metrics that a person chose last."""

from django.db import models

PAGES = ("metrics", "compare")
KINDS = ("fleet", "language", "outside", "mixed")


class MetricChoice(models.Model):
    """The charts that a person chose last on a page, for one kind of run."""

    owner = models.CharField(max_length=200, help_text="A user, or a token of one.")
    page = models.CharField(max_length=8, choices=[(page, page) for page in PAGES])
    kind = models.CharField(
        max_length=8,
        choices=[(kind, kind) for kind in KINDS],
        help_text="Kind of the runs; mixed for a comparison of several kinds.",
    )
    view = models.JSONField(help_text="A MetricChoiceView.")
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(page__in=PAGES, kind__in=KINDS),
                name="metric_choice_page_and_kind_are_known",
            ),
            models.UniqueConstraint(
                fields=["owner", "page", "kind"], name="metric_choice_is_one_per_page_and_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.page} of {self.kind} runs for {self.owner}"
