"""Damaged requests are rejected with a reason or stored once, without harm to the server.

Every valid request is sent once unchanged and once after each of the mutations. The randomness
depends only on the names of request and mutation, so failures are reproducible.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import httpx
import msgspec
import pytest

from buffer.batches.rules.batch_bytes import GroupForm, groups_as
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import PayloadLocation, read_contents
from rolldeck.groups import read
from tests.fuzz.conftest import Platform
from tests.fuzz.known_requests import NAMES, NOTHING_LEASED, PUSHES, Request, request_named
from tests.fuzz.mutators import MUTATORS
from tests.fuzz.observed_effects import Memory, rows

# Makes pytest-django create the database; the platform lives through all tests of a module.
pytestmark = [pytest.mark.django_db, pytest.mark.full("sends thousands of generated requests")]

MAX_GROWTH_BYTES = 64 << 20
# Statuses for errors of the request, in contrast to the platform's state.
ABOUT_THE_REQUEST = {400, 408, 411, 413, 415, 422}


@pytest.fixture(scope="module")
def http(platform: Platform) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {platform.token}"}
    # The server closes connections idle for 5 s, which may pass between requests on a busy machine.
    limits = httpx.Limits(keepalive_expiry=1.0)
    url = platform.web.url
    with httpx.Client(base_url=url, headers=headers, timeout=30, limits=limits) as client:
        yield client


def send(http: httpx.Client, request: Request) -> httpx.Response:
    pieces = (request.body[at : at + 1000] for at in range(0, len(request.body), 1000))
    return http.request(
        request.method,
        request.path,
        content=pieces if request.chunked else request.body,
        headers={"Content-Type": request.content_type, **request.headers},
    )


def problems(answer: httpx.Response) -> list[str]:
    """Return the paths named by a refusal."""
    body = answer.json()
    detail = body.get("detail")
    if isinstance(detail, list):
        return [
            ".".join(map(str, error["loc"])) for error in detail if error["loc"] and error["msg"]
        ]
    return [error["field"] for error in body.get("errors", []) if error["field"]]


def is_explained(answer: httpx.Response) -> bool:
    """Return whether a refusal has a reason, and a path if it is about the request."""
    if answer.status_code in ABOUT_THE_REQUEST:
        return bool(problems(answer))
    return bool(answer.json()["detail"])


def stored_by(request: Request, answer: httpx.Response) -> dict[str, int]:
    """Return the number of rows that an accepted push must have stored, from its response."""
    if request.path.endswith("/scored_data"):
        return {"buffer_trajectorygroup": 1}
    if not request.path.endswith(("_list", "/groups", "/fragments", "/metrics")):
        return {}
    body = answer.json()
    if request.path.endswith("/scored_data_list"):
        return {"buffer_trajectorygroup": body["groups_processed"]}
    if request.path.endswith("/groups"):
        return {"buffer_trajectorygroup": body["received"]}
    if request.path.endswith("/fragments"):
        return {"buffer_fragmentchunk": body["accepted"] + sum(body["dropped"].values())}
    return {"rollouts_metricsample": body["stored"]}


def faults(
    request: Request, answer: httpx.Response, changed: Counter[str], growth_bytes: int
) -> list[str]:
    """Return the problems with the response to a request."""
    results = []
    if growth_bytes > MAX_GROWTH_BYTES:
        results.append(f"took {growth_bytes >> 20} MB")
    if answer.status_code >= 500:
        return [*results, f"{answer.status_code}: {answer.text[:200]}"]
    if answer.is_success:
        for table, count in stored_by(request, answer).items():
            if changed[table] != count:
                results.append(f"left {changed[table]} rows in {table} for {count}")
        return results
    if any(changed.values()):
        results.append(f"{answer.status_code} and yet stored: {dict(+changed)}")
    if not is_explained(answer):
        results.append(f"{answer.status_code} names no place: {answer.text[:200]}")
    return results


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_request_does_no_harm(
    platform: Platform, http: httpx.Client, name: str, record_property: Any
) -> None:
    valid = request_named(name, report=platform.report, lease=platform.lease)
    answer = send(http, valid)
    assert answer.is_success or answer.status_code == 409, answer.text
    wrong: dict[str, list[str]] = {}
    largest = 0
    before = rows()
    for kind, mutate in MUTATORS.items():
        request = mutate(valid, Random(f"{name} {kind}"))
        memory = Memory(platform.web.process.pid)
        answer = send(http, request)
        growth = memory.growth_bytes()
        after = rows()
        changed = Counter({table: after[table] - before[table] for table in after})
        before = after
        largest = max(largest, growth)
        if problems := faults(request, answer, changed, growth):
            wrong[kind] = problems

    record_property("largest growth in MB", largest >> 20)
    assert not wrong, "\n".join(f"{kind}: {message}" for kind, message in wrong.items())


@pytest.mark.last("it reads the effects of all requests")
def test_stored_data_can_be_served_in_every_format(platform: Platform, http: httpx.Client) -> None:
    # With tests spread over processes, this process's platform has seen only some of the others.
    for request in PUSHES:
        send(http, request)
    rows = TrajectoryGroup.objects.values_list("id", *PayloadLocation._fields)
    items = [(item_id, PayloadLocation(*place)) for item_id, *place in rows]
    contents = read_contents(ItemKind.GROUPS, items)

    assert len(contents) >= 30
    for content in contents:
        assert zlib.crc32(content.content) == content.crc32
        for form in GroupForm:
            [item] = groups_as(form, [content])
            assert len(read(item.content, item.codec).scores) > 0
        assert json.loads(groups_as(GroupForm.JSON, [content])[0].content)["tokens"]


@pytest.mark.last("it reads the effects of all requests")
def test_the_server_logged_no_unexpected_error(platform: Platform) -> None:
    assert platform.web.is_live()
    assert "Traceback" not in platform.web.log(), platform.web.log()[-20_000:]


def test_the_mutators_change_requests() -> None:
    valid = request_named("json: messages", report={}, lease=NOTHING_LEASED)
    same = [
        kind
        for kind, mutate in MUTATORS.items()
        if kind != "in pieces" and mutate(valid, Random(kind)).body == valid.body
    ]

    assert same == ["not what the header says"]
    assert len(MUTATORS) == 60
    assert json.loads(valid.body) == valid.tree
    assert msgspec.json.decode(valid.body) == valid.tree
