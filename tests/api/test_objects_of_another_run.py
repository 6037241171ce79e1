"""An object of run beta under the address of run alpha is not found, not shown and not changed.

The addresses come from the URL resolver: a new one with a parameter fails until an object, or a
body where it needs one, is given here.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from rolldeck.operator_requests import RecordingUpdate
from rolldeck.wire import encode
from runs.lifecycle.models import Run
from tests.factories import make_run, make_token, make_user
from tests.lesson_factories import language, lesson
from tests.routes import Route, filled, routes
from tests.run_objects import columns_of, make_objects, named_by

pytestmark = pytest.mark.django_db

PREFIX: Final = "/api/v1/runs/<slug:run>/"
MARK: Final = "of-beta"
KINDS: Final[dict[str, dict[str, Any]]] = {
    "fleet": {},
    "outside": {},
    "language": {"config": language({"reverse": lesson()})},
}
# Parameters that count something within a run or an object: no row of another run has one.
COUNTED: Final = {"sequence", "epoch"}
VALUES: Final = {"run": "alpha", "sequence": 0, "epoch": 1}
# Addresses that create what they name, in the run of the address.
CREATING: Final = {
    ("PUT", "followers/<slug:follower>"),
    ("POST", "captures/<slug:session>/calls"),
}
# Addresses that answer for an unknown name as for one without data, or that check the body first.
EMPTY: Final = {
    ("POST", "followers/<slug:follower>/ack"),
    ("GET", "fleet/workers/<small:worker>/stacks"),
    ("GET", "lessons/<str:lesson>/micro-evaluations"),
}
CALL: Final = {"key": "one", "kind": "chat", "prompt_tokens": [1], "answers": []}
OUTCOME: Final = {
    "key": "one",
    "worker": "w",
    "mode": "train",
    "epoch": 1,
    "policy_step": 0,
    "generations": 1,
    "rewards": [1.0],
    "successes": [True],
}
BODIES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("PATCH", "environments/<small:env_id>"): {"muted": True},
    ("POST", "batches/<str:batch>/ack"): {"fence": 1},
    ("POST", "captures/<slug:session>/calls"): CALL,
    ("POST", "fleet/logs/<uuid:log_request>"): {"lines": ["x"]},
    ("POST", "fleet/workers/<small:worker>/restart"): {"incarnation": MARK},
    ("POST", "fleet/workers/<small:worker>/cordon"): {"incarnation": MARK},
    ("POST", "fleet/workers/<small:worker>/stacks"): {"incarnation": MARK},
    ("POST", "followers/<slug:follower>/ack"): {"cursor": "1-1"},
    ("POST", "lessons/<str:lesson>/outcomes"): OUTCOME,
    ("PUT", "lessons/<str:lesson>/steering"): {"weight_factor": 2.0},
    ("PUT", "evaluations/<uuid:evaluation>/lease"): {"fence": 0},
}
QUERIES: Final = {}
# Bodies that name objects, with the parameter of the object in each.
NAMING: Final[dict[tuple[str, str], tuple[str, dict[str, Any]]]] = {
    ("POST", "marks"): ("group", {"groups": ["{}"], "add_tags": ["x"]}),
    ("POST", "groups/discard"): ("group", {"groups": ["{}"], "reason": "mine"}),
    ("POST", "fragments/ack"): ("batch", {"batch": "{}", "fence": 1}),
    ("POST", "fragments/priorities"): (
        "fragment",
        {"updates": [{"fragment": "{}", "priority": 1.0}]},
    ),
    ("POST", "capture-scores"): ("session", {"scores": {"{}": 1.0}}),
    ("POST", "restorations"): ("archive", {"archive": "{}"}),
}


def parameters(route: Route) -> list[str]:
    inside = [part.partition(">")[0] for part in route.address.split("<")[1:]]
    return [part.rpartition(":")[2] for part in inside if part.rpartition(":")[2] != "run"]


def calls() -> Iterator[tuple[str, str, str]]:
    """Yield each call that names an object of a run: its method, address and parameter."""
    for route in routes():
        if not route.address.startswith(PREFIX):
            continue
        for name in set(parameters(route)) - COUNTED:
            for method in route.methods:
                yield method, route.address.removeprefix(PREFIX), name


@pytest.fixture(params=KINDS)
def alpha(request: pytest.FixtureRequest) -> Run:
    return make_run(name="alpha", kind=request.param, **KINDS[request.param])


@pytest.fixture
def beta(alpha: Run) -> Any:
    return make_objects(make_run(name="beta", kind=alpha.kind, config=alpha.config), mark=MARK)


@pytest.fixture
def admin() -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {make_token('admin')[1]}"})


def sent(client: APIClient, method: str, address: str, body: Any) -> Any:
    is_film = method == "PUT" and "/recordings/" in address
    content = encode(RecordingUpdate(state="failed", worker=0)) if is_film else json.dumps(body)
    kind = "application/vnd.rolldeck.recording+msgpack" if is_film else "application/json"
    return client.generic(method, address, content, content_type=kind)


def test_an_object_of_another_run_is_neither_found_nor_changed(
    alpha: Run, beta: Any, admin: APIClient
) -> None:
    before, wrong = columns_of(beta), []
    for method, address, name in sorted(calls()):
        for row in beta[name]:
            path = filled(PREFIX + address, VALUES | {name: named_by(name, row)})
            path += QUERIES.get((method, address), "")
            answer = sent(admin, method, path, BODIES.get((method, address), {}))
            # 409: a run of this kind has no such objects.
            is_missing = answer.status_code in {404, 409}
            is_empty = (method, address) in EMPTY and MARK.encode() not in answer.content
            if not (is_missing or is_empty or (method, address) in CREATING):
                wrong.append((method, path, answer.status_code, answer.content[:300]))

    assert wrong == []
    assert columns_of(beta) == before


def test_a_body_that_names_an_object_of_another_run_changes_nothing_there(
    alpha: Run, beta: Any
) -> None:
    owner = make_user(username="ada", role="admin")
    _, text = make_token("trainer", "env", "user", run=alpha, created_by=owner)
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    before = columns_of(beta)
    for (method, address), (name, body) in NAMING.items():
        for row in beta[name]:
            value = json.dumps(named_by(name, row), default=str)
            content = json.dumps(body).replace('"{}":', f'"{named_by(name, row)}":')
            path = filled(PREFIX + address, VALUES)
            answer = client.generic(
                method, path, content.replace('"{}"', value), content_type="application/json"
            )
            assert answer.status_code < 500, (address, answer.content)

    assert columns_of(beta) == before
    assert set(Run.objects.values_list("name", flat=True)) == {"alpha", "beta"}
