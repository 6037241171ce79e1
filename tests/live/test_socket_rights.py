"""Access of every caller to every live topic and to the control channel of a run."""

from typing import Final

import pytest
from django.test import Client

from runs.deployment.services.global_topics import DECK_TOPICS
from tests.live_sockets import ORIGIN, Page, WebsocketCommunicator, in_database
from tests.rights_table import (
    ADMINISTER,
    EVERYBODY,
    KNOW_RUN,
    PEOPLE,
    READ,
    STRANGER,
    Principal,
    callers_of,
    make_principals,
)

pytestmark = pytest.mark.django_db(transaction=True)

OF_RUN: Final = "/runs/<slug:run>"
TOPICS: Final[dict[str, set[str]]] = {
    "runs": callers_of(READ, "/"),
    "alerts": callers_of(READ, "/"),
    "audit": callers_of(READ, "/"),
    "cluster": callers_of(READ, "/"),
    "cluster_admin": callers_of(ADMINISTER, "/"),
    "me": set(PEOPLE),
    "run:alpha": callers_of(READ, OF_RUN),
}


def headers_of(caller: Principal) -> list[tuple[bytes, bytes]]:
    if caller.token:
        return [(b"authorization", f"Bearer {caller.token}".encode())]
    if caller.person:
        client = Client()
        client.force_login(caller.person)
        return [(b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode())]
    return []


def test_every_topic_has_a_row() -> None:
    assert set(DECK_TOPICS) == {topic for topic in TOPICS if ":" not in topic}


async def watched(caller: Principal) -> set[str]:
    """Return the topics that a caller may watch, by subscribing to each one."""
    headers = await in_database(headers_of)(caller)
    socket = WebsocketCommunicator("/ws/live", [ORIGIN, *headers])
    assert await socket.connect()
    page, found = Page(socket), set()
    for topic in [*TOPICS, "run:beta"]:
        await page.say(type="subscribe", topic=topic)
        while True:
            frame = await page.hear_any("snapshot", "delta", "error")
            if frame["topic"] == topic and frame["type"] != "delta":
                break
        if frame["type"] == "snapshot":
            found.add(topic)
        else:
            assert frame["code"] == "forbidden", frame
        await page.say(type="unsubscribe", topic=topic)
    await socket.disconnect()
    return found


async def closed_with(path: str, caller: Principal) -> int | None:
    """Return the close code of a socket; None while it stays open."""
    headers = await in_database(headers_of)(caller)
    socket = WebsocketCommunicator(path, [ORIGIN, *headers])
    assert await socket.connect()
    answer = await socket.receive_output(20)
    await socket.disconnect()
    return int(answer["code"]) if answer["type"] == "websocket.close" else None


async def test_a_topic_is_open_to_the_callers_in_its_row_alone() -> None:
    principals = await in_database(make_principals)()
    assert await closed_with("/ws/live", principals.pop(STRANGER)) == 4401

    found = {name: await watched(caller) for name, caller in principals.items()}

    for topic, expected in TOPICS.items():
        allowed = {name for name, topics in found.items() if topic in topics}
        assert allowed == expected, topic
    bound_to_beta = {name for name in EVERYBODY if name.endswith(" of beta")}
    seen = {name for name, topics in found.items() if "run:beta" in topics}
    assert seen == callers_of(READ, "/") | {
        name for name in bound_to_beta if name.partition(" ")[0] in READ
    }


async def test_the_control_channel_is_open_to_machines_and_readers_of_its_run() -> None:
    principals = await in_database(make_principals)()

    codes = {
        name: await closed_with("/ws/runs/alpha/control", caller)
        for name, caller in principals.items()
    }

    allowed = callers_of(KNOW_RUN, OF_RUN)
    assert {name for name, code in codes.items() if code is None} == allowed
    assert codes.pop(STRANGER) == 4401
    assert {code for name, code in codes.items() if name not in allowed} == {4403}
