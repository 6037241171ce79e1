"""The dashboard's component tests answer requests with what this server answers."""

import json
from pathlib import Path
from typing import Final

import pytest
from rest_framework.test import APIClient

from tests.factories import make_user

pytestmark = pytest.mark.django_db

SCHEMA: Final = Path(__file__).parents[3] / "frontend/src/testing/run-config-schema.json"


def test_the_launch_form_is_tested_with_the_current_schema() -> None:
    client = APIClient()
    client.force_login(make_user(username="ada", role="admin"))

    answer = client.get("/api/v1/run-config-schema").json()

    kept = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert kept == answer, f"write the answer of /api/v1/run-config-schema to {SCHEMA}"
