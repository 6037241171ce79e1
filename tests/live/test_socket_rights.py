"""Sockets: callers without a right, and requests that cannot be followed."""

import json

import pytest
from django.test import Client

from runs.access.rules import Caller
from runs.access.services.tokens import revoke_token
from runs.lifecycle.models import Run
from runs.live.api import may_watch
from tests.factories import NOON, make_run, make_token
from tests.live_sockets import (
    ORIGIN,
    WebsocketCommunicator,
    cookie_of,
    headers_of,
    in_database,
    opened,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_an_anonymous_socket_is_closed_with_4401() -> None:
    socket = WebsocketCommunicator("/ws/live", [ORIGIN])

    await socket.connect()

    assert (await socket.receive_output(20))["code"] == 4401


async def test_a_page_of_another_origin_is_refused() -> None:
    headers = [(b"origin", b"https://evil.example"), *await in_database(cookie_of)("viewer")]

    assert not await WebsocketCommunicator("/ws/live", headers).connect()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "subscribe", "topic": "run:nope"}, "not_found"),
        ({"type": "subscribe", "topic": "run:\0"}, "unknown_topic"),
        ({"type": "subscribe", "topic": "run:alpha\0"}, "unknown_topic"),
        ({"type": "resync", "topic": "run:\0"}, "not_subscribed"),
        ({"type": "subscribe", "topic": "weather"}, "unknown_topic"),
        ({"type": "subscribe", "topic": "control:alpha"}, "unknown_topic"),
        ({"type": "resync", "topic": "run:alpha"}, "not_subscribed"),
        ({"type": "dance"}, "invalid"),
        ({"type": "visible", "visible": "no"}, "invalid"),
        ([], "invalid"),
        ("x" * 5000, "invalid"),
    ],
    ids=str,
)
async def test_a_request_that_cannot_be_followed_is_answered_with_an_error(
    message: object, code: str
) -> None:
    await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.socket.send(json.dumps(message))

        assert (await page.receive("error"))["code"] == code


async def test_socket_and_http_refusals_have_the_same_text() -> None:
    run = await in_database(make_run)()
    await in_database(make_run)(name="beta")
    headers = await in_database(headers_of)("read", run=run)
    async with opened("/ws/live", headers) as page:
        for name in ("beta", "nope"):
            await page.send(type="subscribe", topic=f"run:{name}")
            frame = await page.receive("error")
            answer = await in_database(refused_over_http)(f"/api/v1/runs/{name}", headers)

            assert {"code": frame["code"], "detail": frame["detail"]} == answer


def refused_over_http(path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    sent = {name.decode(): value.decode() for name, value in headers}
    body = Client().get(path, headers=sent).json()
    return {name: body[name] for name in ("code", "detail")}


async def test_a_token_of_a_run_receives_its_own_run_only() -> None:
    run = await in_database(make_run)()
    await in_database(make_run)(name="beta")
    async with opened("/ws/live", await in_database(headers_of)("read", run=run)) as page:
        await page.watch("run:alpha")
        for topic in ("run:beta", "runs"):
            await page.send(type="subscribe", topic=topic)
            assert (await page.receive("error"))["code"] == "forbidden"


async def test_the_socket_of_a_revoked_token_is_closed_with_the_next_heartbeat() -> None:
    token, text = await in_database(make_token)("env")
    headers = [(b"authorization", f"Bearer {text}".encode())]
    async with opened("/ws/live", headers) as page:
        await in_database(revoke_token)(token_id=token.pk, actor="tests", now=NOON)

        assert (await page.socket.receive_output(30))["code"] == 4401


@pytest.mark.parametrize(
    ("path", "code"), [("/ws/runs/beta/control", 4403), ("/ws/runs/alpha/control", 4404)]
)
async def test_a_handler_without_the_right_or_the_run_is_refused(path: str, code: int) -> None:
    run = await in_database(make_run)(name="alpha")
    headers = await in_database(headers_of)("env", run=run)
    await in_database(make_run)(name="beta")
    if code == 4404:
        headers = await in_database(headers_of)("env")
        await in_database(Run.objects.filter(pk=run.pk).update)(archived_at=NOON)

    socket = WebsocketCommunicator(path, [ORIGIN, *headers])
    await socket.connect()

    assert (await socket.receive_output(20))["code"] == code


@pytest.mark.parametrize(("topic", "allowed"), [("control:alpha", True), ("run:alpha", False)])
def test_a_machine_of_the_run_keeps_its_control_socket(topic: str, allowed: bool) -> None:
    caller = Caller(identity="token:1", scopes=frozenset({"env"}), run="alpha")

    assert may_watch(caller, topic) == allowed
