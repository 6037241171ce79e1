"""View-only users of the admin see a table, but neither see nor can run its actions."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from runs.access.models import ApiToken, User
from runs.lifecycle.models import Run
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> ApiToken:
    make_token("env", run=make_run(name="alpha"))
    return ApiToken.objects.get()


def staff(*rights: str) -> Client:
    user = User.objects.create_user("sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


def revoke(client: Client, token: ApiToken) -> str:
    data = {"action": "revoke", "_selected_action": [token.pk], "decided": "yes", "reason": "old"}
    return client.post("/admin/runs/apitoken/", data, follow=True).content.decode()


def test_a_viewer_has_no_actions(token: ApiToken) -> None:
    sam = staff("view_apitoken")

    assert "Revoke selected" not in sam.get("/admin/runs/apitoken/").content.decode()
    revoke(sam, token)

    token.refresh_from_db()
    assert token.revoked_at is None


def test_the_change_permission_allows_actions_and_no_edits(token: ApiToken) -> None:
    sam = staff("view_apitoken", "change_apitoken")

    assert "Revoke selected" in sam.get("/admin/runs/apitoken/").content.decode()
    edited = sam.post(f"/admin/runs/apitoken/{token.pk}/change/", {"name": "mine"})
    revoke(sam, token)

    token.refresh_from_db()
    assert edited.status_code == 403
    assert token.revoked_at is not None
    assert token.name != "mine"


def test_sidebar_and_figures_depend_on_permissions(token: ApiToken) -> None:
    page = staff("view_run").get("/admin/").content.decode()

    assert 'href="/admin/runs/run/"' in page
    assert "/admin/buffer/batch/" not in page
    assert "runs failed" in page
    assert "alerts open" not in page
    assert "People" not in page


def test_hidden_tables_are_refused_by_their_url(token: ApiToken) -> None:
    sam = staff("view_run")

    assert sam.get("/admin/runs/apitoken/").status_code == 403
    assert sam.get(f"/admin/runs/apitoken/{token.pk}/change/").status_code == 403


def test_a_figure_links_to_the_rows_that_it_counts() -> None:
    Run.objects.filter(pk=make_run(name="beta").pk).update(status="failed")
    sam = staff("view_run")

    assert "/admin/runs/run/?status__exact=failed" in sam.get("/admin/").content.decode()
    listed = sam.get("/admin/runs/run/?status__exact=failed").content.decode()
    assert ">beta</a>" in listed
