"""Every table of fleets can be looked at in the admin, and none can be changed."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.cast import accept, launched, report, window, worker

pytestmark = pytest.mark.django_db
TABLES = ["fleet", "fleetworker", "envslot", "episodewindow", "metricsample"]


@pytest.fixture
def admin() -> Client:
    run = launched(FakeCluster())
    accept(run, report(run, worker(env_steps=10), episodes=[window(1.0, 3.0)]))
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("table", TABLES)
def test_a_table_can_be_looked_at_and_searched(admin: Client, table: str) -> None:
    assert admin.get(f"/admin/rollouts/{table}/").status_code == 200
    assert admin.get(f"/admin/rollouts/{table}/?q=pole").status_code == 200


@pytest.mark.parametrize("table", TABLES)
def test_no_row_can_be_added_by_hand(admin: Client, table: str) -> None:
    assert admin.get(f"/admin/rollouts/{table}/add/").status_code == 403
