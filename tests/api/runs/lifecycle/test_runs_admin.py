from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client

from runs.access.models import ApiToken, LoginCount, User
from runs.alerts.models import Alert
from runs.alerts.schemas import NewSnooze, SetAlertRule
from runs.alerts.services.alert_rules import make_rule, snooze
from runs.config.services import save_preset
from runs.deployment.models import Deployment
from runs.deployment.schemas import SetNotice
from runs.deployment.services import record_exit, record_heartbeat, set_notice
from runs.lifecycle.models import EnvironmentNumbers, PolicyVersion, Run, RunDeletion
from runs.lifecycle.rules import RunStatus
from runs.lifecycle.services.registry import register_environment, register_trainer
from runs.lifecycle.services.settings import write_notes
from runs.weights.models import WeightsCommand
from tests.factories import NOON, make_project, make_run, make_token, make_user

pytestmark = pytest.mark.django_db

PAGES = [
    model._meta.model_name
    for model in admin.site._registry
    if model._meta.app_label == "runs" and model is not User  # people are editable
]


@pytest.fixture
def browser() -> Client:
    user = make_user(username="ada", role="admin")
    user.is_superuser = True
    user.save()
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def run() -> Run:
    run = make_run()
    trainer = register_trainer(run_id=run.pk, identity="token:1", now=NOON)
    register_environment(
        run_id=run.pk,
        desired_name="gsm8k",
        weight=1.0,
        max_token_length=1,
        group_size=1,
        min_batch_allocation=None,
        now=NOON,
    )
    PolicyVersion.objects.create(
        run=run,
        epoch=1,
        step=0,
        trainer=trainer,
        manifest={},
        sha256="0" * 64,
        size_bytes=1,
        published_at=NOON,
    )
    EnvironmentNumbers.objects.create(run=run, environment="a")
    make_token("env", run=run)
    alert = Alert.objects.create(
        key="a",
        kind="run_failed",
        run=run,
        severity="error",
        message="a",
        first_seen_at=NOON,
        last_seen_at=NOON,
    )
    alert.deliveries.create(
        change="raised", target="a", body="{}", created_at=NOON, next_attempt_at=NOON
    )
    write_notes(run_id=run.pk, text="*a*", revision=0, actor="user:ada", now=NOON)
    save_preset(name="a", config={}, person=None, access="open", actor="a", now=NOON)
    record_heartbeat(kind="web", name="here:8", started_at=NOON, now=NOON)
    rule = SetAlertRule(name="a", metric="loss", comparator="above", threshold=1.0)
    made = make_rule(body=rule, actor="user:ada", now=NOON)
    quiet = NewSnooze(rule=made.pk, until=NOON + timedelta(hours=1), reason="a")
    snooze(body=quiet, actor="user:ada", now=NOON)
    set_notice(body=SetNotice(text="a"), actor="user:ada", now=NOON)
    Deployment.objects.update_or_create(defaults={"places": {}, "created_at": NOON})
    WeightsCommand.objects.create(
        run=run, number=1, kind="sync", epoch=1, newest_step=0, actor="user:ada", at=NOON
    )
    make_project(name="a")
    record_exit(host="a", part="jobs", reason="a", log="", now=NOON)
    LoginCount.objects.create(key="a", attempts=1, window_ends_at=NOON)
    RunDeletion.objects.create(
        run_number=run.pk + 1,
        run_uid="a",
        name="a",
        epoch=0,
        items=0,
        size_bytes=0,
        requested_at=NOON,
    )
    return run


def test_every_model_is_registered() -> None:
    assert sorted(PAGES) == [
        "alert",
        "alertdelivery",
        "alertrule",
        "alertsnooze",
        "apitoken",
        "deployment",
        "environment",
        "environmentnumbers",
        "logincount",
        "partexit",
        "policyversion",
        "processheartbeat",
        "project",
        "run",
        "rundeletion",
        "runevent",
        "runnote",
        "savedobject",
        "servernotice",
        "trainer",
        "weightscommand",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_admin_pages_list_search_and_show_rows_read_only(
    browser: Client, run: Run, page: str
) -> None:
    listed = browser.get(f"/admin/runs/{page}/", {"q": "a"})
    model = next(m for m in admin.site._registry if m._meta.model_name == page)
    row = model._default_manager.latest("pk")
    shown = browser.get(f"/admin/runs/{page}/{row.pk}/change/")

    assert (listed.status_code, shown.status_code) == (200, 200)
    assert browser.get(f"/admin/runs/{page}/add/").status_code == 403
    assert browser.post(f"/admin/runs/{page}/{row.pk}/change/", {"name": "x"}).status_code == 403
    assert browser.post(f"/admin/runs/{page}/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_page_of_a_run_links_to_its_rows(browser: Client, run: Run) -> None:
    shown = browser.get(f"/admin/runs/run/{run.pk}/change/").content.decode()

    assert f"/admin/runs/runevent/?run__id__exact={run.pk}" in shown


def test_the_page_of_a_token_does_not_show_its_hash(browser: Client, run: Run) -> None:
    token = ApiToken.objects.get()

    shown = browser.get(f"/admin/runs/apitoken/{token.pk}/change/").content.decode()

    assert token.token_sha256 not in shown


def test_the_action_revokes_tokens_and_records_the_actor(browser: Client, run: Run) -> None:
    token = ApiToken.objects.get()

    chosen = {"action": "revoke", "_selected_action": [token.pk]}
    browser.post("/admin/runs/apitoken/", chosen | {"decided": "yes", "reason": "leaked"})

    token.refresh_from_db()
    assert token.revoked_at is not None
    event = run.events.get(kind="token_revoked")
    assert (event.actor, event.reason) == ("user:ada", "leaked")


def test_people_without_staff_rights_cannot_open_the_admin() -> None:
    client = Client()
    client.force_login(make_user(role="operator"))

    assert client.get("/admin/").status_code == 302


def test_the_action_deletes_ended_runs_and_names_refusals(browser: Client) -> None:
    ended = make_run(name="beta", status=RunStatus.STOPPED)
    active = make_run(name="gamma")
    chosen = {"action": "delete_runs", "_selected_action": [ended.pk, active.pk]}

    asked = browser.post("/admin/runs/run/", chosen).content.decode()
    assert "Delete these runs?" in asked
    assert Run.objects.filter(name="beta").exists()
    answer = browser.post(
        "/admin/runs/run/", chosen | {"decided": "1", "reason": "wrong data"}, follow=True
    ).content.decode()

    assert "beta is deleted." in answer
    assert "gamma is running: stop or kill it before you delete it" in answer
    assert list(Run.objects.values_list("name", flat=True)) == ["gamma"]
    deletion = RunDeletion.objects.get(name="beta")
    assert (deletion.reason, deletion.requested_by) == ("wrong data", "user:ada")
    assert LogEntry.objects.get().change_message == "deleted; wrong data"
    assert "beta" in browser.get("/admin/runs/rundeletion/").content.decode()
