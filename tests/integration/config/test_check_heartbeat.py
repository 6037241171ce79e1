"""The health check of containers without a port reads the heartbeat of their process."""

import socket
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from config.management.commands.check_heartbeat import LATE_AFTER
from runs.deployment.services import record_heartbeat

pytestmark = pytest.mark.django_db


def beat(kind: str, *, host: str, age: timedelta) -> None:
    at = timezone.now() - age  # noqa: TID251 the command compares with the clock
    record_heartbeat(kind=kind, name=f"{host}:1", host=host, pid=1, started_at=at, now=at)


def test_a_recent_heartbeat_of_this_machine_is_healthy() -> None:
    beat("worker", host=socket.gethostname(), age=timedelta(seconds=5))

    call_command("check_heartbeat", "worker")


@pytest.mark.parametrize("kind", ["worker", "scheduler"])
def test_a_late_heartbeat_or_one_of_another_machine_or_kind_is_not(kind: str) -> None:
    with pytest.raises(CommandError, match="has sent a heartbeat"):
        call_command("check_heartbeat", kind)
    beat(kind, host="elsewhere", age=timedelta(0))
    beat("web", host=socket.gethostname(), age=timedelta(0))
    with pytest.raises(CommandError, match="has sent a heartbeat"):
        call_command("check_heartbeat", kind)

    beat(kind, host=socket.gethostname(), age=LATE_AFTER + timedelta(seconds=1))
    with pytest.raises(CommandError, match=r"the last heartbeat of .*:1 is 61 s old"):
        call_command("check_heartbeat", kind)
