"""A request and its body are freed with their response, without a garbage collection."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.views import APIView

from rolldeck import safetensors
from tests.buffer_factories import REGISTRATION, group
from tests.factories import bearer, make_run
from tests.live_server import serving
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
TIMES = 3
TENSORS = safetensors.encode({"logits": np.zeros(1000, np.float32)})
OF_A_REQUEST = (HttpRequest, HttpResponseBase, Request, APIView)

Send = Callable[[httpx.Client], httpx.Response]


def push(client: httpx.Client) -> httpx.Response:
    return client.post("/atropos/many/scored_data", json=group())


def refused_push(client: httpx.Client) -> httpx.Response:
    return client.post("/atropos/many/scored_data", json=group() | {"scores": "none"})


def read_batch(client: httpx.Client) -> httpx.Response:
    push(client)
    return client.get("/atropos/many/batch")


def wait_for_batch(client: httpx.Client) -> httpx.Response:
    return client.post("/api/v1/runs/many/batches/next", json={"wait_seconds": 0.05})


def push_groups(client: httpx.Client) -> httpx.Response:
    return client.post("/api/v1/runs/many/groups", json=[group()])


def refused_groups(client: httpx.Client) -> httpx.Response:
    return client.post("/api/v1/runs/many/groups", json=[group() | {"env_id": 7}])


def put_tensors(client: httpx.Client) -> httpx.Response:
    return client.put(
        "/api/v1/runs/many/tensors",
        content=TENSORS,
        headers={"Content-Type": "application/octet-stream"},
    )


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Yield a client that has registered as the trainer of the run `many`."""
    headers = bearer("admin", run=make_run(name="many", kind="outside"))
    with serving() as url, httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        registration = REGISTRATION | {"batch_size": 2}
        client.post("/atropos/many/register", json=registration).raise_for_status()
        client.get("/atropos/many/batch").raise_for_status()
        client.post("/api/v1/runs/many/trainers", json={}).raise_for_status()
        yield client
    connection.close()


def kept(kinds: tuple[type, ...] = OF_A_REQUEST) -> list[Any]:
    """Return the live objects of these kinds."""
    # `isinstance` would ask proxies for their class, and torch has one that warns.
    return [found for found in gc.get_objects() if issubclass(type(found), kinds)]


@contextmanager
def collecting_nothing(client: httpx.Client, send: Send) -> Iterator[Callable[..., list[Any]]]:
    """Switch the garbage collector off; yield a function that returns the live objects made since.

    One request is sent first, which loads modules and fills caches.
    """
    send(client)
    gc.collect()
    gc.disable()
    try:
        older = kept()
        known = set(map(id, older))
        yield lambda *kinds: [found for found in kept(kinds) if id(found) not in known]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("send", "status"),
    [
        (push, 200),
        (refused_push, 422),
        (read_batch, 200),
        (wait_for_batch, 204),
        (push_groups, 200),
        (refused_groups, 422),
    ],
)
def test_no_request_of_a_machine_outlives_its_response(
    client: httpx.Client, send: Send, status: int
) -> None:
    with collecting_nothing(client, send) as made:
        statuses = [send(client).status_code for _ in range(TIMES)]
        # The server keeps the last request of a connection until the next.
        client.get("/atropos/many/status")
        # Names, because a failed assertion would keep the objects.
        names = [type(found).__name__ for found in made(*OF_A_REQUEST)]

    assert statuses == [status] * TIMES
    assert names == []


def test_no_body_outlives_its_response(client: httpx.Client) -> None:
    with collecting_nothing(client, put_tensors) as made:
        statuses = [put_tensors(client).status_code for _ in range(TIMES)]
        # Django closes a request after the last byte of its response.
        eventually(lambda: [found.body for found in made(HttpRequest)] == [b""] * TIMES, 20)
        names = [type(found).__name__ for found in made(APIView, Request)]

    assert statuses == [200] * TIMES
    assert names == []
