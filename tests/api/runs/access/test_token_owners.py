"""A token permits no more than its owner's role at the time of the request."""

from typing import Any, Final

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.test import Client

from runs.access.models import ApiToken, TokenIssuer, User
from runs.access.queries import role_of
from runs.access.rules import Role
from runs.access.services.tokens import UnknownScope, adopt_bootstrap_token, authenticate
from runs.events.models import RunEvent
from tests.factories import NOON, make_run, make_token, make_user

pytestmark = pytest.mark.django_db

BATCH: Final = "00000000-0000-0000-0000-000000000001"
# One call that only the scope allows; allowed callers get anything but 401 and 403.
CALLS: Final = {
    "trainer": ("GET", f"/api/v1/runs/alpha/batches/{BATCH}"),
    "env": ("POST", "/api/v1/runs/alpha/groups"),
    "worker": ("GET", "/api/v1/runs/alpha/fleet/control?wait=0"),
    "read": ("GET", "/api/v1/runs"),
    "user": ("GET", "/api/v1/runs"),
    "metrics": ("GET", "/metrics"),
    "admin": ("GET", "/api/v1/segments"),
}
PAUSE: Final = ("POST", "/api/v1/runs/alpha/pause")


@pytest.fixture
def ada() -> User:
    make_run(name="alpha")
    return make_user(username="ada", role="admin")


def created(owner: User, *scopes: str, **more: Any) -> dict[str, str]:
    """Return the headers of a token that `owner` creates over the API."""
    client = Client()
    client.force_login(owner)
    body = {"name": "mine", "scopes": list(scopes), **more}
    answer = client.post("/api/v1/tokens", body, content_type="application/json")
    assert answer.status_code == 201, answer.content
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def status(headers: dict[str, str], call: tuple[str, str]) -> int:
    method, path = call
    return int(Client().generic(method, path, headers=headers).status_code)


def is_allowed(headers: dict[str, str], call: tuple[str, str]) -> bool:
    return status(headers, call) not in {401, 403}


def demote(person: User, *, to: str) -> None:
    person.is_staff = person.is_superuser = False
    person.save()
    if to == "operator":
        person.groups.add(Group.objects.get_or_create(name="operator")[0])


@pytest.mark.parametrize("scope", CALLS)
@pytest.mark.parametrize("run", [None, "alpha"])
def test_a_token_of_an_administrator_works(ada: User, scope: str, run: str | None) -> None:
    headers = created(ada, scope, **({"run": run} if run else {}))
    is_about_all = CALLS[scope][1] in {"/api/v1/runs", "/api/v1/segments", "/metrics"}

    assert is_allowed(headers, CALLS[scope]) == (run is None or not is_about_all)


@pytest.mark.parametrize("scope", CALLS)
@pytest.mark.parametrize("end", ["deactivated", "deleted"])
def test_a_token_of_a_deactivated_person_is_refused(ada: User, scope: str, end: str) -> None:
    headers = created(ada, scope)
    if end == "deleted":
        ada.delete()
    else:
        User.objects.filter(pk=ada.pk).update(is_active=False)

    assert status(headers, CALLS[scope]) == 401
    assert status(headers, ("GET", "/api/v1/runs/alpha")) == 401


@pytest.mark.parametrize("scope", CALLS)
@pytest.mark.parametrize("role", ["operator", "viewer"])
def test_a_token_of_a_demoted_person_is_limited_to_the_new_role(
    ada: User, scope: str, role: str
) -> None:
    headers = created(ada, scope)
    demote(ada, to=role)

    assert is_allowed(headers, CALLS[scope]) == (scope in {"read", "user"})
    has_role = scope in {"user", "admin"}
    assert is_allowed(headers, PAUSE) == (has_role and role == "operator")
    assert is_allowed(headers, ("GET", "/api/v1/runs")) == (has_role or scope == "read")


@pytest.mark.parametrize("scope", CALLS)
def test_a_reactivated_person_has_working_tokens(ada: User, scope: str) -> None:
    headers = created(ada, scope)
    User.objects.filter(pk=ada.pk).update(is_active=False, is_staff=False)
    assert not is_allowed(headers, CALLS[scope])

    User.objects.filter(pk=ada.pk).update(is_active=True, is_staff=True)

    assert is_allowed(headers, CALLS[scope])


def test_deleting_a_person_revokes_their_tokens_with_events(ada: User) -> None:
    created(ada, "trainer", run="alpha")
    created(ada, "read")

    User.objects.filter(pk=ada.pk).delete()

    assert not ApiToken.objects.filter(revoked_at=None).exists()
    events = RunEvent.objects.filter(kind="token_revoked")
    assert [event.reason for event in events] == ["its owner ada was deleted"] * 2


def test_a_token_created_with_a_token_has_the_same_owner(ada: User) -> None:
    first = created(ada, "admin")
    body = {"name": "child", "scopes": ["trainer", "user"]}
    answer = Client().post("/api/v1/tokens", body, headers=first, content_type="application/json")
    child = {"Authorization": f"Bearer {answer.json()['token']}"}

    assert answer.json()["created_by"] == "ada"
    assert is_allowed(child, CALLS["trainer"])
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert not is_allowed(child, CALLS["trainer"])


def test_the_bootstrap_token_and_its_tokens_need_no_owner() -> None:
    make_run(name="alpha")
    adopt_bootstrap_token(text="sixteen letters!", now=NOON)
    bootstrap = {"Authorization": "Bearer sixteen letters!"}

    def create(*scopes: str) -> Any:
        body = {"name": "child", "scopes": list(scopes)}
        return Client().post(
            "/api/v1/tokens", body, headers=bootstrap, content_type="application/json"
        )

    child = create("trainer").json()
    assert child["issuer"] == "platform"
    assert is_allowed({"Authorization": f"Bearer {child['token']}"}, CALLS["trainer"])
    refused = create("user")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "scopes"


def test_the_list_of_tokens_shows_suspended_scopes(ada: User) -> None:
    created(ada, "trainer", "read", "user")
    demote(ada, to="operator")
    client = Client()
    client.force_login(make_user(username="boss", role="admin"))

    (row,) = client.get("/api/v1/tokens").json()["results"]

    assert (row["created_by"], row["issuer"], row["suspended"]) == ("ada", "person", ["trainer"])


def test_no_token_of_a_person_is_stored_without_its_owner() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        make_token("env", issuer=TokenIssuer.PERSON)
    with pytest.raises(UnknownScope):
        make_token("user")

    assert not ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("fields", "group"),
    [
        ({}, ""),
        ({}, "operator"),
        ({}, "another"),
        ({"is_staff": True}, ""),
        ({"is_superuser": True}, "operator"),
        ({"is_staff": True, "is_active": False}, "operator"),
    ],
)
def test_the_role_of_an_owner_is_that_of_the_person(fields: dict[str, bool], group: str) -> None:
    person = User.objects.create_user("ada", **fields)  # type: ignore[arg-type]
    if group:
        person.groups.add(Group.objects.create(name=group))
    _, text = make_token("user", created_by=person)

    token = authenticate(text=text, address=None, now=NOON)

    role = Role(token.owner_role or 0) if token else Role.ANONYMOUS
    assert role == role_of(person)


def test_checking_the_owner_takes_no_further_query(
    ada: User, django_assert_num_queries: Any
) -> None:
    _, text = make_token("trainer", created_by=ada)
    authenticate(text=text, address=None, now=NOON)

    # The query for the token includes the owner's role and bypasses Django's query builder.
    with django_assert_num_queries(0):
        assert authenticate(text=text, address=None, now=NOON) is not None
