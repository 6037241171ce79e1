"""Every route of the API, and who may call it.

A route without a row here fails, and so does a row without a route. Whoever has no right gets 401
or 403 from the real view; for those who have it, the view's own permissions are asked, because the
call itself would need a body that makes sense.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.db import transaction
from django.urls import URLPattern, get_resolver
from pytest_django import DjangoDbBlocker
from rest_framework.exceptions import APIException
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from runs.models import Run
from tests.factories import make_run, make_token, make_user

PEOPLE: Final = ("viewer", "operator", "admin")
# Tokens: of every run unless the name says otherwise.
MACHINES: Final = (
    "trainer token",
    "env token",
    "worker token",
    "metrics token",
    "user token",
    "admin token",
    "trainer token of alpha",
    "trainer token of beta",
    "admin token of beta",
)
Callers = dict[str, tuple[APIClient, dict[str, Any]]]
EVERYBODY: Final = ("stranger", *PEOPLE, *MACHINES)

KNOWN: Final = {*PEOPLE, *MACHINES}
READ_ALL: Final = {
    *PEOPLE,
    *("trainer token", "env token", "worker token", "user token", "admin token"),
}
READ_RUN: Final = READ_ALL | {"trainer token of alpha"}
OPERATE: Final = {"operator", "admin", "admin token"}
ADMINISTER: Final = {"admin", "admin token"}
TRAIN: Final = ADMINISTER | {"trainer token", "trainer token of alpha"}
WORK: Final = ADMINISTER | {"worker token"}

MATRIX: Final[dict[tuple[str, str], set[str]]] = {
    ("GET", "session"): set(EVERYBODY),
    ("POST", "session"): set(EVERYBODY),
    ("DELETE", "session"): set(EVERYBODY),
    ("GET", "sessions"): KNOWN,
    ("DELETE", "sessions"): KNOWN,
    ("DELETE", "sessions/<slug:browser>"): KNOWN,
    ("GET", "api-clients"): ADMINISTER,
    ("GET", "api-calls"): ADMINISTER,
    ("GET", "audit"): READ_ALL,
    ("GET", "audit.csv"): READ_ALL,
    ("GET", "alerts"): READ_ALL,
    ("GET", "alerts/<large:alert>"): READ_ALL,
    ("POST", "alerts/<large:alert>/acknowledge"): OPERATE,
    ("POST", "alerts/<large:alert>/resolve"): OPERATE,
    ("GET", "alert-rules"): READ_ALL,
    ("POST", "alert-rules"): OPERATE,
    ("GET", "alert-rules/<large:rule>"): READ_ALL,
    ("PUT", "alert-rules/<large:rule>"): OPERATE,
    ("DELETE", "alert-rules/<large:rule>"): OPERATE,
    ("GET", "alert-rules/preview"): READ_ALL,
    ("GET", "alert-silences"): READ_ALL,
    ("POST", "alert-silences"): OPERATE,
    ("POST", "alert-silences/<large:silence>/end"): OPERATE,
    ("GET", "webhooks"): READ_ALL,
    ("POST", "webhooks/<slug:webhook>/test"): OPERATE,
    ("GET", "limits"): KNOWN,
    ("GET", "run-config-schema"): KNOWN,
    ("POST", "run-checks"): OPERATE,
    ("GET", "cluster"): READ_ALL,
    ("PUT", "cluster/nodes/<slug:node>/cordon"): ADMINISTER,
    ("DELETE", "cluster/nodes/<slug:node>/cordon"): ADMINISTER,
    ("GET", "deck"): KNOWN,
    ("GET", "deck/kept"): READ_ALL,
    ("GET", "deck/licences"): KNOWN,
    ("GET", "deck/notice"): KNOWN,
    ("PUT", "deck/notice"): OPERATE,
    ("DELETE", "deck/notice"): OPERATE,
    ("GET", "environments"): READ_ALL,
    ("GET", "environments/one"): READ_ALL,
    ("POST", "environments/try"): OPERATE,
    ("PUT", "environments/verdict"): ADMINISTER,
    ("GET", "presets"): READ_ALL,
    ("POST", "presets"): OPERATE,
    ("GET", "presets/<slug:preset>"): READ_ALL,
    ("PATCH", "presets/<slug:preset>"): OPERATE,
    ("DELETE", "presets/<slug:preset>"): OPERATE,
    ("GET", "tokens"): ADMINISTER,
    ("POST", "tokens"): ADMINISTER,
    ("DELETE", "tokens/<small:token>"): ADMINISTER,
    ("GET", "segments"): ADMINISTER,
    ("GET", "runs"): READ_ALL,
    ("GET", "runs.csv"): READ_ALL,
    ("GET", "run-filter"): READ_ALL,
    ("GET", "run-filter/values"): READ_ALL,
    ("GET", "comparisons"): READ_ALL,
    ("POST", "comparisons"): OPERATE,
    ("GET", "comparisons/<large:comparison>"): READ_ALL,
    ("DELETE", "comparisons/<large:comparison>"): OPERATE,
    ("GET", "comparisons/<large:comparison>/file"): READ_ALL,
    ("GET", "run-costs"): READ_ALL,
    ("GET", "prompts"): READ_ALL,
    ("GET", "run-outlooks"): READ_ALL,
    ("GET", "run-verdicts"): READ_ALL,
    ("POST", "run-actions"): OPERATE,
    ("PUT", "runs/<slug:run>/tags"): OPERATE,
    ("GET", "runs/<slug:run>/notes"): READ_RUN,
    ("PUT", "runs/<slug:run>/notes"): OPERATE,
    ("GET", "runs/<slug:run>/notes/<small:revision>"): READ_RUN,
    ("POST", "runs"): OPERATE,
    ("GET", "runs/<slug:run>"): READ_RUN,
    ("PATCH", "runs/<slug:run>"): OPERATE,
    ("POST", "runs/<slug:run>/start"): OPERATE,
    ("POST", "runs/<slug:run>/pause"): OPERATE,
    ("POST", "runs/<slug:run>/resume"): OPERATE,
    ("POST", "runs/<slug:run>/drain"): OPERATE,
    ("POST", "runs/<slug:run>/stop"): OPERATE,
    ("POST", "runs/<slug:run>/kill"): OPERATE,
    ("GET", "runs/<slug:run>/bundle"): READ_RUN,
    ("GET", "runs/<slug:run>/events"): READ_RUN,
    ("GET", "runs/<slug:run>/environments"): READ_RUN,
    ("PATCH", "runs/<slug:run>/environments/<small:env_id>"): OPERATE,
    ("POST", "runs/<slug:run>/reset"): OPERATE,
    ("GET", "runs/<slug:run>/weights"): READ_RUN,
    ("GET", "runs/<slug:run>/weights/deliveries"): READ_RUN,
    ("GET", "runs/<slug:run>/arrivals"): READ_RUN,
    ("GET", "runs/<slug:run>/queue"): READ_RUN,
    ("GET", "runs/<slug:run>/batches/<uuid:batch>/items"): READ_RUN,
    ("GET", "runs/<slug:run>/trainers"): READ_RUN,
    ("POST", "runs/<slug:run>/trainers"): TRAIN,
    ("POST", "runs/<slug:run>/weights"): TRAIN,
    ("GET", "runs/<slug:run>/weights/orders"): READ_RUN,
    ("POST", "runs/<slug:run>/weights/pin"): OPERATE,
    ("POST", "runs/<slug:run>/weights/unpin"): OPERATE,
    ("POST", "runs/<slug:run>/weights/sync"): OPERATE,
    ("GET", "runs/<slug:run>/weights/current"): READ_RUN,
    ("GET", "runs/<slug:run>/weights/<small:epoch>/<step:step>"): READ_RUN,
    ("GET", "runs/<slug:run>/groups"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/facets"): READ_RUN,
    ("POST", "runs/<slug:run>/groups/discard"): OPERATE,
    ("GET", "runs/<slug:run>/groups/export"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/<large:group>"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/<large:group>/content"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/<large:group>/sequences"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>"): READ_RUN,
    ("GET", "runs/<slug:run>/groups/<large:group>/sequences/<small:sequence>/messages"): READ_RUN,
    ("POST", "runs/<slug:run>/groups"): WORK | {"env token"},
    ("GET", "runs/<slug:run>/marks"): READ_RUN,
    ("POST", "runs/<slug:run>/marks"): OPERATE,
    ("PUT", "runs/<slug:run>/labels/<small:label>"): OPERATE,
    ("POST", "runs/<slug:run>/sets/<slug:group_set>"): OPERATE,
    ("POST", "runs/<slug:run>/sets/<slug:group_set>/drop"): OPERATE,
    ("GET", "runs/<slug:run>/fragments"): READ_RUN,
    ("GET", "runs/<slug:run>/fragments/<large:fragment>"): READ_RUN,
    ("GET", "runs/<slug:run>/fragments/<large:fragment>/steps"): READ_RUN,
    ("POST", "runs/<slug:run>/fragments"): WORK,
    ("POST", "runs/<slug:run>/fragments/fetch"): TRAIN,
    ("POST", "runs/<slug:run>/fragments/ack"): TRAIN,
    ("POST", "runs/<slug:run>/fragments/priorities"): TRAIN,
    ("GET", "runs/<slug:run>/batches"): READ_RUN,
    ("GET", "runs/<slug:run>/batches/preview"): READ_RUN,
    ("POST", "runs/<slug:run>/batches/<uuid:batch>/release"): OPERATE,
    ("POST", "runs/<slug:run>/batches/<uuid:batch>/discard"): OPERATE,
    ("GET", "runs/<slug:run>/mixing"): READ_RUN,
    ("POST", "runs/<slug:run>/batches/next"): TRAIN,
    ("GET", "runs/<slug:run>/batches/<uuid:batch>"): TRAIN,
    ("POST", "runs/<slug:run>/batches/<str:batch>/ack"): TRAIN,
    ("GET", "runs/<slug:run>/ledger"): READ_RUN,
    ("GET", "runs/<slug:run>/bias"): READ_RUN,
    ("GET", "runs/<slug:run>/archives"): READ_RUN,
    ("POST", "runs/<slug:run>/archives"): OPERATE,
    ("GET", "runs/<slug:run>/archives/<small:archive>"): READ_RUN,
    ("DELETE", "runs/<slug:run>/archives/<small:archive>"): OPERATE,
    ("GET", "runs/<slug:run>/archives/<small:archive>/file"): OPERATE,
    ("POST", "runs/<slug:run>/restorations"): OPERATE,
    ("GET", "runs/<slug:run>/captures"): READ_RUN,
    ("GET", "runs/<slug:run>/captures/<slug:session>"): READ_RUN,
    ("POST", "runs/<slug:run>/captures/<slug:session>/calls"): WORK | {"env token"},
    ("POST", "runs/<slug:run>/capture-scores"): WORK | {"env token"},
    ("GET", "runs/<slug:run>/followers"): READ_RUN,
    ("GET", "runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("PUT", "runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("DELETE", "runs/<slug:run>/followers/<slug:follower>"): TRAIN,
    ("POST", "runs/<slug:run>/followers/<slug:follower>/fetch"): TRAIN,
    ("POST", "runs/<slug:run>/followers/<slug:follower>/ack"): TRAIN,
    ("GET", "runs/<slug:run>/pipeline"): READ_RUN,
    ("GET", "runs/<slug:run>/fleet"): READ_RUN,
    ("GET", "runs/<slug:run>/fleet/control"): WORK,
    ("POST", "runs/<slug:run>/fleet/report"): WORK,
    ("GET", "runs/<slug:run>/fleet/attempts"): READ_RUN,
    ("GET", "runs/<slug:run>/fleet/logs"): READ_RUN,
    ("POST", "runs/<slug:run>/fleet/logs/<uuid:log_request>"): WORK,
    ("POST", "runs/<slug:run>/fleet/workers/<small:worker>/restart"): OPERATE,
    ("POST", "runs/<slug:run>/fleet/workers/<small:worker>/cordon"): OPERATE,
    ("POST", "runs/<slug:run>/fleet/workers/<small:worker>/uncordon"): OPERATE,
    ("POST", "runs/<slug:run>/fleet/workers/<small:worker>/stacks"): OPERATE,
    ("GET", "runs/<slug:run>/fleet/workers/<small:worker>/stacks"): READ_RUN,
    ("GET", "runs/<slug:run>/recordings"): READ_RUN,
    ("POST", "runs/<slug:run>/recordings"): OPERATE,
    ("PUT", "runs/<slug:run>/recordings/<uuid:recording>"): WORK,
    ("GET", "runs/<slug:run>/recordings/<uuid:recording>/content"): READ_RUN,
    ("GET", "runs/<slug:run>/episodes"): READ_RUN,
    ("GET", "runs/<slug:run>/episodes/summary"): READ_RUN,
    ("GET", "runs/<slug:run>/episodes/spread"): READ_RUN,
    ("GET", "runs/<slug:run>/episodes/outliers"): READ_RUN,
    ("GET", "runs/<slug:run>/episodes/matches"): READ_RUN,
    ("GET", "runs/<slug:run>/lessons"): READ_RUN,
    ("POST", "runs/<slug:run>/lessons/tasks"): WORK,
    ("GET", "runs/<slug:run>/lessons/history"): READ_RUN,
    ("GET", "runs/<slug:run>/lessons/progress"): READ_RUN,
    ("POST", "runs/<slug:run>/lessons/<str:lesson>/outcomes"): WORK,
    ("PUT", "runs/<slug:run>/lessons/<str:lesson>/steering"): OPERATE,
    ("GET", "runs/<slug:run>/evaluations/<uuid:evaluation>"): READ_RUN,
    ("GET", "runs/<slug:run>/lessons/<str:lesson>/micro-evaluations"): READ_RUN,
    ("GET", "runs/<slug:run>/evaluations"): READ_RUN,
    ("POST", "runs/<slug:run>/evaluations"): OPERATE,
    ("PUT", "runs/<slug:run>/evaluations/<uuid:evaluation>/lease"): WORK,
    ("GET", "runs/<slug:run>/metrics"): READ_RUN,
    ("POST", "runs/<slug:run>/metrics"): TRAIN,
    ("GET", "runs/<slug:run>/metrics/keys"): READ_RUN,
    ("GET", "runs/<slug:run>/metrics/samples"): READ_RUN,
    ("GET", "runs/<slug:run>/metrics/lines"): READ_RUN,
    ("GET", "runs/<slug:run>/metrics/moment"): READ_RUN,
    ("GET", "runs/<slug:run>/metrics/names"): READ_RUN,
    ("GET", "runs/<slug:run>/metric-layouts"): READ_RUN,
    ("POST", "runs/<slug:run>/metric-layouts"): READ_RUN,
    ("PUT", "runs/<slug:run>/metric-layouts/<large:layout>"): READ_RUN,
    ("DELETE", "runs/<slug:run>/metric-layouts/<large:layout>"): READ_RUN,
    ("GET", "runs/<slug:run>/annotations"): READ_RUN,
    ("POST", "runs/<slug:run>/annotations"): TRAIN | OPERATE,
    ("DELETE", "runs/<slug:run>/annotations/<large:annotation>"): TRAIN | OPERATE,
    ("GET", "metrics/lines"): READ_ALL,
}

SAMPLES: Final[dict[str, Any]] = {
    "run": "alpha",
    "follower": "eve",
    "browser": "0123abc",
    "alert": 1,
    "rule": 1,
    "layout": 1,
    "comparison": 1,
    "annotation": 1,
    "silence": 1,
    "webhook": "0123456789abcdef",
    "group": 1,
    "fragment": 1,
    "sequence": 0,
    "label": 1,
    "group_set": "kept",
    "session": "one",
    "token": 1,
    "preset": "small-fleet",
    "revision": 1,
    "epoch": 1,
    "step": 0,
    "worker": 0,
    "batch": str(uuid.UUID(int=1)),
    "lesson": "reverse",
    "evaluation": str(uuid.UUID(int=4)),
    "archive": 1,
    "env_id": 0,
    "recording": str(uuid.UUID(int=3)),
    "log_request": str(uuid.UUID(int=2)),
    "node": "head-id",
}


def api_routes(patterns: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each route below /api/ and its view class."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(entry.pattern)
        if not isinstance(entry, URLPattern):
            yield from api_routes(entry.url_patterns, route)
        elif route.startswith("api/"):
            yield route.removeprefix("api/"), getattr(entry.callback, "cls", None)


def api_calls() -> dict[tuple[str, str], type[APIView]]:
    return {
        (method, route): view
        for route, view in api_routes()
        if view is not None
        for method in view().allowed_methods
        if method != "OPTIONS"
    }


def test_every_route_below_api_is_a_view_with_permissions() -> None:
    assert [route for route, view in api_routes() if view is None] == []


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert set(api_calls()) == set(MATRIX)


def url_of(route: str) -> str:
    for name, value in SAMPLES.items():
        for kind in ("slug", "small", "large", "step", "uuid", "str"):
            route = route.replace(f"<{kind}:{name}>", str(value))
    assert "<" not in route, f"SAMPLES needs a value for {route}"
    return f"/api/{route}"


@pytest.fixture(scope="module")
def callers(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Callers]:
    """Each caller as a client, and as what a view's request would hold; made once for all rows."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield _callers()
        transaction.set_rollback(True)


def _callers() -> Callers:
    runs: dict[str, Run] = {name: make_run(name=name) for name in ("alpha", "beta")}
    found: Callers = {"stranger": (APIClient(), {})}
    for role in PEOPLE:
        person = make_user(username=role, role=role)
        client = APIClient()
        client.force_login(person)
        found[role] = (client, {"user": person})
    for name in MACHINES:
        scope, _, run = name.removesuffix(" token").partition(" token of ")
        _, text = make_token(scope, run=runs.get(run))
        found[name] = (APIClient(headers={"Authorization": f"Bearer {text}"}), {"text": text})
    return found


def passes(call: tuple[str, str], caller: dict[str, Any]) -> bool:
    """Return whether the view's own authentication and permissions let the caller in."""
    method, route = call
    arguments = {name: value for name, value in SAMPLES.items() if f":{name}>" in route}
    headers = {"Authorization": f"Bearer {caller['text']}"} if "text" in caller else None
    request = APIRequestFactory().generic(method, "/", headers=headers)
    if "user" in caller:
        force_authenticate(request, caller["user"])
    instance = api_calls()[call]()
    instance.setup(request, **arguments)
    instance.request = instance.initialize_request(request, **arguments)
    try:
        instance.perform_authentication(instance.request)
        instance.check_permissions(instance.request)
    except APIException:
        return False
    return True


@pytest.mark.django_db
@pytest.mark.parametrize("call", MATRIX, ids=" ".join)
def test_a_route_is_open_to_those_in_its_row_and_closed_to_everybody_else(
    call: tuple[str, str], callers: Callers
) -> None:
    method, route = call

    let_in = {name for name, (_, caller) in callers.items() if passes(call, caller)}
    assert let_in == MATRIX[call]

    for name in set(EVERYBODY) - MATRIX[call]:
        response = callers[name][0].generic(method, url_of(route))
        assert response.status_code == (401 if name == "stranger" else 403), name
        assert response["Content-Type"] == "application/problem+json"
