"""Every caller at every route of the API and of the Atropos protocol, for a run and for another.

A route without a row fails, and so does a row without a route. A caller without the right gets
401 or 403 from the real view. For callers with the right, the view's own permissions are asked,
because the call itself would need a valid body.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import APIException
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from tests.rights_table import (
    EVERYBODY,
    IN_A_BROWSER,
    ROWS,
    STRANGER,
    TOKEN_ONLY,
    Principal,
    callers_of,
    make_principals,
)
from tests.routes import filled, routes

NOT_TABLED: Final = {"/openapi.json", "/docs"}
SAMPLES: Final[dict[str, Any]] = {
    **dict.fromkeys(("alert", "rule", "view", "annotation", "snooze"), 1),
    **dict.fromkeys(("group", "fragment", "token", "epoch", "archive"), 1),
    **dict.fromkeys(("sequence", "step", "worker", "env_id"), 0),
    **dict.fromkeys(("batch", "evaluation", "recording", "log_request"), UUID(int=1)),
    **dict.fromkeys(("follower", "webhook", "session", "node"), "one"),
    "project": "cartpole",
    "run": "alpha",
    "preset": "small-fleet",
    "lesson": "reverse",
}


def views() -> dict[tuple[str, str], type[APIView]]:
    return {
        (method, route.address): route.view
        for route in routes()
        if route.view is not None and route.address not in NOT_TABLED
        for method in route.methods
    }


def test_every_route_below_api_is_a_view_with_permissions() -> None:
    bare = [route.address for route in routes() if route.view is None]

    assert [address for address in bare if address.startswith(("/api/", "/atropos/"))] == []


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    # The page of the dashboard comes first at the root, so that the greeting there has no row.
    assert set(views()) - {("GET", "/")} == set(ROWS)


@pytest.fixture(scope="module")
def principals(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[dict[str, Principal]]:
    """Every caller, made once for all rows."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_principals()
        transaction.set_rollback(True)


def passes(call: tuple[str, str], caller: Principal) -> bool:
    """Return whether the view's own authentication and permissions let the caller in."""
    method, address = call
    view = views()[call]
    arguments = {name: value for name, value in SAMPLES.items() if f":{name}>" in address}
    request = APIRequestFactory().generic(method, "/", headers=caller.headers)
    knows_sessions = any(
        issubclass(way, SessionAuthentication) for way in view.authentication_classes
    )
    if caller.person is not None and knows_sessions:
        force_authenticate(request, caller.person)
    instance = view()
    instance.setup(request, **arguments)
    instance.request = instance.initialize_request(request, **arguments)
    try:
        instance.perform_authentication(instance.request)
        instance.check_permissions(instance.request)
    except APIException:
        return False
    return True


@pytest.mark.django_db
@pytest.mark.parametrize("call", ROWS, ids=" ".join)
def test_a_route_is_open_to_the_callers_in_its_row_alone(
    call: tuple[str, str], principals: dict[str, Principal], settings: Any
) -> None:
    settings.ROLLDECK_AUTH = "required"
    method, address = call
    expected = callers_of(ROWS[call], address)

    assert {name for name, caller in principals.items() if passes(call, caller)} == expected

    for name in set(EVERYBODY) - expected:
        caller = principals[name]
        response = caller.client.generic(method, filled(address, SAMPLES))
        is_unknown = name == STRANGER or (caller.token is None and ROWS[call] >= TOKEN_ONLY)
        assert response.status_code == (401 if is_unknown else 403), (name, response.content)
        detail = response.json()["detail"]
        if ROWS[call] == IN_A_BROWSER and caller.token:
            assert "tokens are not accepted" in detail
        elif caller.token:
            assert "is bound to run" in detail or "this token has" in detail, (name, detail)
