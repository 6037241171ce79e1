"""Counters of password attempts."""

from django.db import models


class LoginCount(models.Model):
    """Number of password attempts of one counter in its present window."""

    key = models.CharField(
        max_length=64, primary_key=True, help_text="Hash of a name, an address or a browser."
    )
    attempts = models.PositiveIntegerField()
    window_ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.attempts} attempts until {self.window_ends_at:%H:%M:%S}"
