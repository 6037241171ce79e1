"""The topics of machines and session: their access and content."""

import asyncio
import time
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session as BrowserSession

from config.cluster.messages import Cluster
from rollouts.control.services.machines import cordon_machine
from runs.access.models import User
from runs.deployment.schemas import SetNotice
from runs.deployment.services import clear_notice, record_heartbeat, set_notice
from runs.live import rules as topic_names
from runs.live.rules import CLUSTER, CLUSTER_ADMIN
from tests.factories import NOON, make_run
from tests.fake_cluster import node_row
from tests.live_sockets import Page, cookie_of, headers_of, in_database, opened
from tests.waiting import stays_async
from web.live import parts

pytestmark = pytest.mark.django_db(transaction=True)

# Pages poll at least every two seconds; earlier frames are due to a notice.
SOONER_THAN_A_LOOK = 1.5


def cluster(frame: Any) -> Cluster:
    return msgspec.convert(frame["parts"]["cluster"], Cluster, strict=False)


@pytest.fixture
def reads() -> Any:
    """Count the reads of the cluster, without performing them."""
    real = parts.GLOBAL_PARTS[CLUSTER]["cluster"]
    count = {"reads": 0}

    def read_cluster() -> dict[str, int]:
        count["reads"] += 1
        return dict(count)

    parts.GLOBAL_PARTS[CLUSTER]["cluster"] = read_cluster
    yield count
    parts.GLOBAL_PARTS[CLUSTER]["cluster"] = real


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the poll interval of the cluster, so that the tests need not wait."""
    poll_cluster(monkeypatch, seconds=0.2)


def poll_cluster(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> None:
    rule = topic_names.GlobalTopicRule(
        frame_seconds=seconds / 2, poll_seconds=seconds, is_visible_only=True
    )
    monkeypatch.setitem(topic_names.SERVER_TOPICS, CLUSTER, rule)


async def test_the_cluster_is_sent_completely_and_then_updated(often: None) -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch(CLUSTER)
        first = cluster(snapshot)
        assert (first.database.state, first.storage.state) == ("up", "up")

        delta = await page.receive("delta")
        assert delta["previous"] == snapshot["sequence"] < delta["sequence"]
        assert cluster(delta).at > first.at


async def test_the_cluster_is_read_once_for_all_subscribers(reads: Any, often: None) -> None:
    headers = await in_database(cookie_of)("viewer")
    async with opened("/ws/live", headers) as one, opened("/ws/live", headers) as two:
        await one.watch(CLUSTER)
        await two.watch(CLUSTER)
        deltas = [await page.receive("delta") for page in (one, two, one, two)]

        assert deltas[2] == deltas[1] or deltas[3] == deltas[2]
        assert reads["reads"] <= 4


async def test_a_topic_without_subscribers_is_not_read(
    reads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll_cluster(monkeypatch, seconds=0.05)
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await stays_async(lambda: reads["reads"] == 0, 0.2)  # no subscriber yet

        await page.watch(CLUSTER)
        await page.send(type="visible", visible=False)
        # The server has handled the message before this one; a read may be in progress.
        await page.send(type="resync", topic="run:none")
        while (await page.receive_any("error", "delta"))["type"] != "error":
            pass
        await asyncio.sleep(0.05)
        hidden = reads["reads"]
        await stays_async(lambda: reads["reads"] == hidden, 0.25)
        assert hidden > 0

        await page.send(type="visible", visible=True)
        snapshot = await page.receive_any("snapshot", "delta")
        assert snapshot["parts"]["cluster"]["reads"] > hidden


async def test_addresses_are_shown_to_administrators_only() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("admin")) as page:
        assert cluster(await page.watch(CLUSTER)).database.address is None
        assert cluster(await page.watch(CLUSTER_ADMIN)).database.address


@pytest.mark.parametrize("role", ["viewer", "operator", None])
async def test_topics_of_administrators_are_refused_to_other_people(role: str | None) -> None:
    headers = await (in_database(cookie_of)(role) if role else in_database(headers_of)("read"))
    async with opened("/ws/live", headers) as page:
        assert await refusal(page, CLUSTER_ADMIN) == "forbidden"


async def test_a_token_of_one_run_receives_nothing_of_the_server() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(headers_of)("read", run=run)) as page:
        assert await refusal(page, CLUSTER) == "forbidden"
    async with opened("/ws/live", await in_database(headers_of)("metrics")) as page:
        assert await refusal(page, CLUSTER) == "forbidden"


async def refusal(page: Page, topic: str) -> str:
    await page.send(type="subscribe", topic=topic)
    return str((await page.receive("error"))["code"])


async def test_a_revoked_right_to_a_topic_closes_the_socket_with_the_next_heartbeat() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("admin")) as page:
        await page.watch(CLUSTER_ADMIN)
        await in_database(User.objects.update)(is_staff=False, is_superuser=False)

        answer = await page.socket.receive_output(20)
        while answer["type"] == "websocket.send":
            answer = await page.socket.receive_output(20)
        assert answer["code"] == 4403


async def test_an_open_page_receives_a_change_of_role() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        session = (await page.watch("me"))["parts"]["session"]
        assert (session["authenticated"], session["role"]) == (True, "viewer")

        await in_database(make_operator)(session["username"])
        delta = await page.receive("delta", within=15)

        assert delta["topic"] == "me"
        assert delta["parts"] == {"session": {**session, "role": "operator"}}
        # Later changes of rights apply too: the heartbeat contains the topic's own name.
        beat = await page.receive("beat", within=15)
        assert beat["sequences"] == {"me": delta["sequence"]}


def make_operator(username: str) -> None:
    group, _ = Group.objects.get_or_create(name="operator")
    User.objects.get(username=username).groups.add(group)


async def test_a_notice_reaches_every_page_at_once_even_hidden_ones() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        assert (await page.watch("me"))["parts"]["notice"] is None
        await page.send(type="visible", visible=False)

        began = time.monotonic()
        body = SetNotice(text="down at noon", reason="", until=None)
        await in_database(set_notice)(body=body, actor="user:ada", now=NOON)

        assert (await page.receive("delta"))["parts"]["notice"]["text"] == "down at noon"
        assert time.monotonic() - began < SOONER_THAN_A_LOOK
        await in_database(clear_notice)(reason="", actor="user:ada", now=NOON)
        assert (await page.receive("delta"))["parts"]["notice"] is None


async def test_a_cordon_of_a_machine_reaches_pages_at_once() -> None:
    node = node_row("gpu-1", cpus=4.0)
    await in_database(record_heartbeat)(
        kind="ray", name="a:1", started_at=NOON, details={"nodes": [node]}, now=NOON
    )
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        assert cluster(await page.watch(CLUSTER)).cordons == []

        await in_database(cordon_machine)(node="gpu-1-id", reason="hot", actor="user:ada", now=NOON)
        began = time.monotonic()
        [cordon] = cluster(await page.receive("delta")).cordons

        assert (cordon.host, cordon.reason, cordon.cordoned_by) == ("gpu-1", "hot", "user:ada")
        assert time.monotonic() - began < SOONER_THAN_A_LOOK


async def test_a_session_that_is_ended_closes_its_pages_with_the_next_heartbeat() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("operator")) as page:
        await page.watch("me")
        await in_database(BrowserSession.objects.all().delete)()

        answer = await page.socket.receive_output(20)
        while answer["type"] == "websocket.send":
            answer = await page.socket.receive_output(20)
        assert answer["code"] == 4401


async def test_the_topic_of_a_person_is_refused_to_tokens_and_other_people() -> None:
    async with opened("/ws/live", await in_database(headers_of)("read")) as page:
        assert await refusal(page, "me") == "forbidden"
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        assert await refusal(page, "me:user:ada") == "unknown_topic"


async def test_a_page_that_leaves_the_topic_me_receives_no_more_of_it() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("me")
        await page.send(type="unsubscribe", topic="me")

        assert (await page.receive("beat", within=15))["sequences"] == {}
