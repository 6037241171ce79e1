"""Retention is listed with the size of the data and the setting that limits it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from buffer.payloads.models import Segment
from runs.events.services import record_event
from runs.lifecycle.models import PolicyVersion
from tests.factories import NOON, make_run, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _viewer(client: Client) -> None:
    client.force_login(make_user(username="a-viewer", role="viewer"))


def storage(client: Client) -> dict[str, Any]:
    answer = client.get("/api/v1/server/retention")
    assert answer.status_code == 200, answer.content
    content: dict[str, Any] = answer.json()
    return content


def rows(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in state["results"]}


def test_payloads_are_shown_with_their_limits_without_dropped_ones(
    client: Client, settings: Settings
) -> None:
    settings.ROLLDECK_RETENTION_BYTES = 5_000_000
    Segment.objects.filter(sealed_at=None).delete()
    old = {"opened_at": NOON, "sealed_at": NOON}
    Segment.objects.create(number=901, items=7, size_bytes=700, dropped_at=NOON, **old)
    Segment.objects.create(number=902, items=3, size_bytes=300, **old)
    Segment.objects.create(number=903, items=2, size_bytes=50, opened_at=NOON + timedelta(hours=1))

    payloads = rows(storage(client))["payloads"]

    assert (payloads["size_bytes"], payloads["count"]) == (350, 5)
    assert payloads["oldest_at"] == NOON.isoformat().replace("+00:00", "Z")
    assert {
        "setting": "ROLLDECK_RETENTION_BYTES",
        "value": 5_000_000,
        "unit": "bytes",
    } in payloads["limits"]


def test_only_weights_with_a_file_count(client: Client) -> None:
    run = make_run()
    plain = {"run": run, "epoch": 1, "manifest": {}, "sha256": "0" * 64, "published_at": NOON}
    PolicyVersion.objects.create(step=0, size_bytes=40, file="", **plain)
    PolicyVersion.objects.create(step=1, size_bytes=60, file="weights/1", **plain)

    weights = rows(storage(client))["weights"]

    assert (weights["size_bytes"], weights["count"]) == (60, 1)
    assert weights["limits"] == [{"setting": "", "value": 4, "unit": "per_run"}]


def test_archives_are_the_existing_files(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.ROLLDECK_VAR = tmp_path
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "1.parquet").write_bytes(b"x" * 12)

    archives = rows(storage(client))["archives"]

    assert (archives["size_bytes"], archives["count"]) == (12, 1)
    assert archives["oldest_at"] is not None


def test_the_last_backup_is_shown(client: Client) -> None:
    assert storage(client)["backed_up_at"] is None
    record_event(
        run_id=None, kind="server_backed_up", message="backed up", actor="somebody", now=NOON
    )

    assert storage(client)["backed_up_at"] == NOON.isoformat().replace("+00:00", "Z")
