"""Lists of the admin show the newest rows without sorting a table, however long it is."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client, RequestFactory

from runs.access.models import User
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run
from web.admin.read_only import COUNTED_AT_MOST, ReadOnlyAdmin

pytestmark = pytest.mark.django_db
# Tables with as many rows as runs, requests of people, or recently live processes.
SHORT = {
    *("rollouts.fleet", "buffer.ledgeraudit", "runs.processheartbeat", "runs.partexit"),
    *("rollouts.recording", "rollouts.logrequest", "rollouts.evaluation"),
    *(
        "rollouts.deniedenvironment",
        "rollouts.machinecordon",
        "runs.alertrule",
    ),
}
LONG = [
    model
    for model, model_admin in admin.site._registry.items()
    if isinstance(model_admin, ReadOnlyAdmin) and model._meta.label_lower not in SHORT
]
ROWS = 12_345


@pytest.mark.parametrize("model", LONG, ids=lambda model: model._meta.label_lower)
def test_a_list_is_in_an_order_that_an_index_has(model: type[Model]) -> None:
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("ada")
    rows = admin.site.get_model_admin(model).get_changelist_instance(request).queryset
    with connection.cursor() as cursor:
        # Empty tables are sorted at no cost; this permits it only if no index has the order.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        sql, values = rows[:50].query.sql_with_params()
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
        [plan] = cursor.fetchone()[0]

    assert "Sort" not in set(node_types(plan["Plan"])), plan


def node_types(node: dict[str, Any]) -> Iterator[str]:
    yield node["Node Type"]
    for part in node.get("Plans", ()):
        yield from node_types(part)


@pytest.fixture
def crowded() -> Run:
    """A run with more events than the admin counts."""
    run = make_run(name="crowded")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs_runevent (run_id, at, kind, level, actor, message, reason, details)"
            " SELECT %s, %s, 'noted', 'info', 'user:ada', 'noted', '', '{}'"
            " FROM generate_series(1, %s)",
            [run.pk, NOON, ROWS],
        )
        cursor.execute("ANALYZE runs_runevent")
    return run


def test_a_long_list_shows_its_estimated_length(crowded: Run) -> None:
    ada = Client()
    ada.force_login(User.objects.create_superuser("ada"))

    whole = ada.get("/admin/runs/runevent/").content.decode()
    of_run = ada.get(f"/admin/runs/runevent/?run__id__exact={crowded.pk}").content.decode()

    assert "about 12,000" in whole
    assert f"more than {COUNTED_AT_MOST:,}" in of_run
    assert f"{COUNTED_AT_MOST + 1}" not in whole + of_run
