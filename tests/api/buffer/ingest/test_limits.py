import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from buffer.items.rules.limits import DEFAULTS, Limits
from tests.buffer_factories import REGISTRATION
from tests.factories import bearer, make_run

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.django_db
def test_every_limit_is_shown_with_its_value(settings: Any) -> None:
    settings.ROLLDECK_MAX_TOKENS_PER_GROUP = 77

    shown = Client(headers=bearer("env")).get("/api/v1/limits").json()

    assert shown.pop("max_token_id") == 2**31 - 1
    assert shown.pop("max_tokens_per_group") == 77
    assert shown.pop("min_free_disk_bytes") == settings.ROLLDECK_MIN_FREE_DISK_BYTES
    assert shown == {
        f"max_{field.name}": getattr(DEFAULTS, field.name)
        for field in fields(Limits)
        if field.name != "tokens_per_group"
    }


@pytest.mark.django_db(transaction=True)
def test_no_request_waits_longer_than_the_limit(settings: Any) -> None:
    settings.ROLLDECK_MAX_WAIT_SECONDS = 0
    make_run(name="demo", kind="outside")
    trainer = Client(headers=bearer("trainer"))
    trainer.post("/atropos/demo/register", REGISTRATION, content_type="application/json")
    began = time.monotonic()

    answer = trainer.post(
        "/api/v1/runs/demo/batches/next", {"wait_seconds": 30}, content_type="application/json"
    )

    assert answer.status_code == 204
    assert time.monotonic() - began < 10


def test_every_limit_is_described_with_its_default() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    described = dict(re.findall(r"\| `ROLLDECK_MAX_(\w+)` \| (\d+) \|", page))

    assert described == {
        field.name.upper(): str(getattr(DEFAULTS, field.name)) for field in fields(Limits)
    }
