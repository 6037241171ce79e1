"""The deployment: its identity, processes and their exits, and the notice to all users."""

import uuid
from typing import Final

from django.db import models
from django.db.models import Q


class Deployment(models.Model):
    """Identity of the deployment, which its folders carry too: at most one row.

    Created when the first process starts that uses the folders.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    identity = models.UUIDField(default=uuid.uuid4)
    places = models.JSONField(help_text="Host and path of each folder when it was marked.")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="deployment_is_one")]

    def __str__(self) -> str:
        return str(self.identity)


class ServerNotice(models.Model):
    """Notice shown to all users on every page: at most one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    text = models.CharField(max_length=300)
    reason = models.TextField(blank=True)
    until = models.DateTimeField(null=True, blank=True, help_text="Null for no end.")
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="server_notice_is_one")]

    def __str__(self) -> str:
        return self.text


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
        constraints = [models.UniqueConstraint(fields=["host", "part"], name="part_exit_is_one")]

    def __str__(self) -> str:
        return f"{self.part} on {self.host}: {self.reason}"


PART_KINDS: Final = ("web", "worker", "scheduler", "ray")


class ProcessHeartbeat(models.Model):
    """A process of the deployment and its last heartbeat, renewed every few seconds.

    The rows are informative only. A part that has ended keeps its row for a while, so that users
    see when it ended.
    """

    kind = models.CharField(max_length=12, choices=[(kind, kind) for kind in PART_KINDS])
    name = models.CharField(max_length=255, help_text="Host and process id; unique per kind.")
    host = models.CharField(max_length=255, blank=True)
    pid = models.PositiveBigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(help_text="Time of the last heartbeat.")
    version = models.CharField(max_length=40, blank=True)
    details = models.JSONField(default=dict, blank=True)
    problem = models.TextField(blank=True, help_text="Problem found by the last check.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="process_heartbeat_is_one"),
            models.CheckConstraint(
                condition=models.Q(kind__in=PART_KINDS), name="process_heartbeat_kind_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
