"""The admin shows everything, is read-only except for actions, and logs them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import Q
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker, Settings

from buffer.archive.models import ArchiveJob
from buffer.inspect.models import GroupDigest
from buffer.items.models import Batch, TrajectoryGroup
from runs.access.models import ApiToken, User
from runs.deployment.models import Deployment
from runs.events.models import RunEvent
from runs.lifecycle.models import Environment, Run
from tests.database import shared_rows
from tests.e2e import pages
from tests.sample_runs import sample_runs
from web.admin import read_only

pytestmark = pytest.mark.django_db
OURS = ("runs", "buffer", "rollouts")
# Its key has several columns, which the admin cannot show; its rows are previews of items.
# People, the only editable rows, are in test_admin_rights.py.
LEFT_OUT = {"buffer.payload", "runs.user"}
# Every URL of the dashboard, with a dollar for each name or number.
PLACES = {re.sub(r"\$\w+", "$", place) for place in pages.addresses()}
MODELS = [
    model
    for model in admin.site._registry
    if model._meta.app_label in OURS and model._meta.label_lower not in LEFT_OUT
]
SHOWN = [model for model in MODELS if admin.site._registry[model].dashboard]  # type: ignore[attr-defined]
WITHOUT_ROWS = {
    *("buffer.groupdigest", "runs.alertdelivery"),
    *(
        "runs.deployment",
        "runs.environmentnumbers",
        "runs.partexit",
        "runs.processheartbeat",
        "runs.servernotice",
        "rollouts.deniedenvironment",
    ),
    "rollouts.machinecordon",
    "rollouts.machinesample",
    "rollouts.outage",
}
"""Tables shown by the dashboard that the sample runs leave empty."""


@pytest.fixture(scope="module", autouse=True)
def _seeded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Write the sample runs once for all tests of this file."""

    def write() -> None:
        # Tests of other files keep the row of the deployment, if they made it.
        Deployment.objects.all().delete()
        now = datetime.now(UTC)
        sample_runs.end(sample_runs.write(clock=lambda: now), now=now)

    with shared_rows(django_db_blocker, write):
        yield


@pytest.fixture
def ada() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    return client


def test_every_model_is_in_the_admin() -> None:
    known = {
        model._meta.label_lower for app in OURS for model in apps.get_app_config(app).get_models()
    }

    assert known - {model._meta.label_lower for model in MODELS} == LEFT_OUT


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_lists_and_rows_are_read_only(ada: Client, model: type) -> None:
    options = model._meta  # type: ignore[attr-defined]
    base = f"/admin/{options.app_label}/{options.model_name}/"
    row = model._default_manager.order_by("-pk").first()  # type: ignore[attr-defined]

    assert ada.get(base, {"q": "seed-cartpole-live"}).status_code == 200
    assert ada.get(f"{base}add/").status_code == 403
    if row is not None:
        assert ada.get(f"{base}{row.pk}/change/").status_code == 200
        assert ada.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_the_row_count_of_a_list_is_limited_to_its_pages(ada: Client, model: type) -> None:
    options = model._meta  # type: ignore[attr-defined]
    with CaptureQueriesContext(connection) as captured:
        ada.get(f"/admin/{options.app_label}/{options.model_name}/")

    counts = [query["sql"] for query in captured.captured_queries if "COUNT(" in query["sql"]]
    assert [sql for sql in counts if "LIMIT" not in sql] == []
    if admin.site._registry[model].may_grow:  # type: ignore[index, attr-defined]
        queries = [query["sql"] for query in captured.captured_queries]
        assert [sql for sql in queries if "DISTINCT" in sql] == []


def test_searches_without_an_index_cover_the_newest_rows(
    ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only, "ROWS_EXAMINED", 1)
    everything = rows_shown(ada, "/admin/buffer/trajectorygroup/")
    filtered = ada.get("/admin/buffer/trajectorygroup/?state__exact=queued").content.decode()

    assert everything > 1
    assert "Filters search the newest 1 rows" in filtered
    assert filtered.count('class="action-select') <= 1
    mix = Run.objects.get(name="seed-atropos-mix")
    stored = TrajectoryGroup.objects.filter(run=mix, segment__isnull=False).count()
    assert rows_shown(ada, f"/admin/buffer/trajectorygroup/?run__id__exact={mix.pk}") == min(
        stored, 50
    )


GROUPS = "/admin/buffer/trajectorygroup/"


@pytest.fixture
def digested() -> TrajectoryGroup:
    """Return the first of two digested groups of a run: of lesson sums-1 by worker w0."""
    first, second = TrajectoryGroup.objects.filter(
        run__name="seed-reverse-lessons", segment__isnull=False
    ).order_by("id")[:2]
    for group, lesson, worker in ((first, "sums-1", "w0@4f"), (second, "sort-2", "w1@4f")):
        GroupDigest.objects.create(
            group=group,
            run_id=group.run_id,
            lesson=lesson,
            worker=worker,
            score_mean=group.score_mean,
            longest_tokens=group.longest_tokens,
        )
    return first


def test_groups_are_filtered_by_environment_lesson_worker_and_score(
    ada: Client, digested: TrajectoryGroup
) -> None:
    environment = Run.objects.get(name="seed-atropos-mix").environments.get(env_id=0)
    of_name = Environment.objects.filter(wandb_name__startswith=environment.wandb_name)
    pairs = [Q(run_id=one.run_id, env_id=one.env_id) for one in of_name]
    lesson, worker = digested.digest.lesson, digested.digest.worker
    least, most = digested.score_mean - 0.01, digested.score_mean + 0.01
    of_lesson = Q(digest__lesson__startswith=lesson[:-1])
    in_run = Q(run_id=digested.run_id, segment__isnull=False)
    cases = {
        f"environment={environment.wandb_name}": reduce(or_, pairs),
        f"lesson={lesson[:-1]}": of_lesson,
        f"worker={worker}": Q(digest__worker__startswith=worker),
        f"score_mean_from={least}&score_mean_to={most}": Q(score_mean__range=(least, most)),
        f"run__id__exact={digested.run_id}&lesson={lesson[:-1]}": in_run & of_lesson,
        "lesson=no-such-lesson": Q(pk=None),
        "worker=%00": Q(),
        "environment=no-such": Q(pk=None),
    }

    for query, condition in cases.items():
        expected = TrajectoryGroup.objects.filter(condition).count()
        assert rows_shown(ada, f"{GROUPS}?{query}") == min(expected, 50), query
    assert TrajectoryGroup.objects.filter(of_lesson).exists()
    assert TrajectoryGroup.objects.filter(reduce(or_, pairs)).exists()


def test_filters_of_groups_search_the_newest_rows_of_a_run_and_need_no_choices(
    ada: Client, digested: TrajectoryGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only, "ROWS_EXAMINED", 1)
    of_run = f"{GROUPS}?run__id__exact={digested.run_id}"
    with CaptureQueriesContext(connection) as captured:
        everything = rows_shown(ada, of_run)
    page = ada.get(f"{of_run}&score_mean_from=-1000").content.decode()

    assert everything > 1
    assert [query for query in captured.captured_queries if "groupdigest" in query["sql"]] == []
    assert "search the newest 1 rows of the run" in page
    assert len(re.findall(r"field-state", page)) == 1


def rows_shown(ada: Client, address: str) -> int:
    page = ada.get(address).content.decode()
    table = page.partition('id="result_list"')[2].partition("</table>")[0]
    return len(re.findall(r"field-state", table))


def test_deceptive_characters_in_the_text_of_a_group_are_named(ada: Client) -> None:
    hostile = TrajectoryGroup.objects.filter(run__name="seed-hostile-text").order_by("id").first()
    assert hostile is not None

    page = ada.get(f"/admin/buffer/trajectorygroup/{hostile.pk}/change/").content.decode()

    assert "<script>document" not in page
    assert "[[60,47" not in page  # the preview of tokens is bounded
    assert len(page) < 200_000


def leased(ada: Client) -> Batch:
    del ada
    return Batch.objects.get(run__name="seed-atropos-mix", state="leased")


def act(ada: Client, model: str, action: str, *rows: object, reason: str = "") -> str:
    """Run an action on rows with a decision, like a person; return the page that follows."""
    data = {"action": action, "_selected_action": list(rows), "decided": "yes", "reason": reason}
    return ada.post(f"/admin/{model}/", data, follow=True).content.decode()


def test_only_an_expired_lease_is_queued_again(ada: Client) -> None:
    batch = leased(ada)

    assert "not quarantined or expired" in act(ada, "buffer/batch", "release", batch.pk)
    Batch.objects.filter(pk=batch.pk).update(lease_expires_at=batch.leased_at - timedelta(hours=1))
    act(ada, "buffer/batch", "release", batch.pk, reason="the trainer is gone")

    batch.refresh_from_db()
    assert batch.state == "dropped"
    event = batch.run.events.filter(kind="batch_released").latest("pk")
    assert (event.actor, event.reason) == ("user:ada", "the trainer is gone")
    assert "the trainer is gone" in LogEntry.objects.get().change_message


def test_a_batch_is_discarded_only_with_a_reason(ada: Client) -> None:
    batch = Batch.objects.get(run__name="seed-atropos-mix", state="quarantined")
    chosen = {"action": "discard", "_selected_action": [batch.pk], "reason": "by accident"}
    page = ada.post("/admin/buffer/batch/", chosen).content.decode()

    assert "Discard these batches?" in page
    assert f'value="{batch.pk}"' in page
    batch.refresh_from_db()
    assert batch.state == "quarantined"
    assert "Enter a reason" in act(ada, "buffer/batch", "discard", batch.pk)
    batch.refresh_from_db()
    assert batch.state == "quarantined"
    act(ada, "buffer/batch", "discard", batch.pk, reason="nan in its rewards")
    batch.refresh_from_db()
    assert batch.state == "dropped"
    assert batch.run.events.filter(reason="nan in its rewards", actor="user:ada").exists()


def test_revoked_tokens_and_exported_runs_are_audited(ada: Client) -> None:
    token = ApiToken.objects.get(name="seed-trainer")
    run = Run.objects.get(name="seed-reverse-lessons")

    act(ada, "runs/apitoken", "revoke", token.pk, reason="leaked")
    act(ada, "runs/run", "export", run.pk)

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert "leaked" in LogEntry.objects.get(object_repr=str(token)).change_message
    assert ArchiveJob.objects.get(run=run).asked_by == "user:ada"
    assert sorted(LogEntry.objects.values_list("object_repr", flat=True)) == sorted(
        [str(token), str(run)]
    )


def test_the_admin_names_the_server_and_links_to_the_dashboard(
    ada: Client, settings: Settings
) -> None:
    settings.ROLLDECK_DEPLOYMENT, settings.ROLLDECK_DEPLOYMENT_COLOUR = "lab cluster 3", "danger"
    page = ada.get("/admin/").content.decode()
    run = Run.objects.get(name="seed-atropos-mix")

    assert "lab cluster 3" in page
    assert 'href="/runs"' in page
    shown = ada.get(f"/admin/runs/run/{run.pk}/change/").content.decode()
    assert 'href="/runs/seed-atropos-mix"' in shown


def test_every_table_that_the_dashboard_shows_has_a_row_in_the_seed(ada: Client) -> None:
    empty = {
        model._meta.label_lower  # type: ignore[attr-defined]
        for model in SHOWN
        if not model._default_manager.exists()  # type: ignore[attr-defined]
    }

    assert empty == WITHOUT_ROWS


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model._meta.label_lower)
def test_a_row_links_to_its_page_of_the_dashboard(ada: Client, model: type) -> None:
    model_admin = admin.site._registry[model]
    row = model._default_manager.order_by("-pk").first()  # type: ignore[attr-defined]
    if row is None:  # covered by the test above
        assert model._meta.label_lower in WITHOUT_ROWS  # type: ignore[attr-defined]
        return
    place = model_admin.view_on_site(row)  # type: ignore[operator]

    assert place is not None
    assert re.sub(r"/(seed-[\w-]+|\d+)(?=/|$)", "/$", place.partition("?")[0]) in PLACES
    assert ada.get(place).status_code == 200
    options = model._meta  # type: ignore[attr-defined]
    page = ada.get(f"/admin/{options.app_label}/{options.model_name}/{row.pk}/change/")
    assert f'href="{place}"' in page.content.decode()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label_lower)
def test_a_list_can_be_filtered(model: type) -> None:
    model_admin = admin.site._registry[model]

    assert model_admin.list_filter
    of_a_run = [field.name for field in model._meta.get_fields() if field.name == "run"]  # type: ignore[attr-defined]
    if of_a_run and model._meta.label_lower not in {"buffer.groupdigest", "runs.alertdelivery"}:  # type: ignore[attr-defined]
        assert read_only.RUN_FILTER in model_admin.list_filter


@pytest.mark.parametrize(
    ("asked", "messages"),
    [
        ("actor=user:olga", {"paused"}),
        ("kind=drained&actor=", {"drained"}),
        ("kind=drain", set()),
        ("at_from=soon&actor=token:7", {"drained"}),
        ("q=disk", {"paused"}),
        ("q=request-7", {"drained"}),
        ("level=error", {"drained"}),
        ("at_from=2026-01-03", {"paused"}),
        ("at_to=2026-01-01&kind=", {"drained"}),
    ],
)
def test_the_audit_log_is_filtered_and_searched(
    ada: Client, asked: str, messages: set[str]
) -> None:
    RunEvent.objects.all().delete()
    run = Run.objects.get(name="seed-atropos-mix")
    RunEvent.objects.create(
        run=run, at=datetime(2026, 1, 3, tzinfo=UTC), kind="paused", actor="user:olga",
        message="message paused", reason="the disk is full",
    )  # fmt: skip
    RunEvent.objects.create(
        run=None, at=datetime(2026, 1, 1, tzinfo=UTC), kind="drained", actor="token:7",
        message="message drained", level="error", request_id="request-7",
    )  # fmt: skip

    page = ada.get(f"/admin/runs/runevent/?{asked}").content.decode()

    assert {word for word in ("paused", "drained") if f"message {word}" in page} == messages


def test_trainers_and_environments_link_to_their_batches_and_groups(ada: Client) -> None:
    mix = Run.objects.get(name="seed-atropos-mix")
    trainer, environment = mix.trainers.first(), mix.environments.get(env_id=0)
    assert trainer is not None
    places = {
        f"runs/trainer/{trainer.pk}": f"buffer/batch/?trainer__id__exact={trainer.pk}",
        f"runs/environment/{environment.pk}": (
            f"buffer/trajectorygroup/?run__id__exact={mix.pk}&amp;env_id=0"
        ),
    }

    for place, leads_to in places.items():
        assert f"/admin/{leads_to}" in ada.get(f"/admin/{place}/change/").content.decode()
        listed = ada.get("/admin/" + leads_to.replace("&amp;", "&"))
        assert listed.status_code == 200
        assert 'id="result_list"' in listed.content.decode()
