"""Exits of the server's parts, as recorded by the process that restarts them."""

from django.db import models


class PartExit(models.Model):
    """The last exit of a part on one host, and the number of exits in a row.

    Written by the supervisor of `manage.py up`, so it does not depend on the part itself.
    """

    host = models.CharField(max_length=255)
    part = models.CharField(max_length=40, help_text="Such as jobs, beat, ray or web.")
    exits = models.PositiveIntegerField(help_text="Exits with less than an hour between them.")
    first_at = models.DateTimeField(help_text="Time of the first of these exits.")
    last_at = models.DateTimeField()
    reason = models.TextField(help_text="Exit code or signal of the last exit, or why it ended.")
    log = models.TextField(blank=True, help_text="Last lines of the part's log at that time.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["host", "part"], name="part_exit_is_one"),
        ]

    def __str__(self) -> str:
        return f"{self.part} on {self.host}: {self.reason}"
