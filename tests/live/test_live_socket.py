import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from runs.events.services import record_event
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services import lifecycle
from runs.lifecycle.services.registry import default_run, reset_run
from runs.live.services import FRAME_SECONDS, hub
from tests.factories import NOON, make_run
from tests.live_sockets import (
    cookie_of,
    headers_of,
    in_database,
    opened,
    read_clock,
)
from web.live import parts
from web.live.announcements import announce
from web.live.websocket_protocol import QUEUE_FRAMES, Socket

pytestmark = pytest.mark.django_db(transaction=True)

# Pages poll every two seconds; earlier frames are due to a notice.
SOONER_THAN_A_POLL = 1.5


async def apply_verb(run: Run, verb: RunVerb) -> None:
    await in_database(lifecycle.change_status)(run_id=run.pk, verb=verb, actor="tests", now=NOON)


async def note(run: Run, text: str) -> None:
    await in_database(record_event)(
        run_id=run.pk, kind="note", message=text, actor="tests", now=NOON
    )


async def test_a_page_receives_a_snapshot_and_then_only_changes() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")

        assert snapshot["parts"]["run"]["status"] == "running"
        assert [event["kind"] for event in snapshot["series"]["events"]] == ["created"]

        began = time.monotonic()
        await note(run, "first")
        delta = await page.receive("delta")

        assert time.monotonic() - began < SOONER_THAN_A_POLL
        assert delta["previous"] == snapshot["sequence"] < delta["sequence"]
        assert delta["parts"] == {}
        assert [event["message"] for event in delta["series"]["events"]] == ["first"]

        await apply_verb(run, RunVerb.PAUSE)
        paused = await page.receive_parts()
        assert paused["previous"] >= delta["sequence"]
        assert paused["parts"]["run"]["status"] == "paused"
        delta = paused

        await note(run, "hello")
        following = await page.receive("delta")
        assert following["previous"] == delta["sequence"]
        assert "run" not in following["parts"]
        assert following["series"]["events"][-1]["message"] == "hello"


async def test_a_frame_has_the_commit_time_of_its_newest_change() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")
        assert snapshot["committed_at"] is None

        before = datetime.now(UTC)
        await note(run, "first")
        await note(run, "second")
        after = datetime.now(UTC)
        delta = await page.receive("delta")
        while delta["series"]["events"][-1]["message"] != "second":
            delta = await page.receive("delta")

        committed_at = datetime.fromisoformat(delta["committed_at"])
        assert before < committed_at < after
        assert committed_at <= datetime.fromisoformat(delta["at"])
        await page.send(type="resync", topic="run:alpha")
        assert (await page.receive("snapshot"))["committed_at"] == delta["committed_at"]


async def test_unannounced_changes_have_no_time_of_commit() -> None:
    state = {"value": 0}
    parts.PARTS["test_silent"] = lambda _: dict(state)
    await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("run:alpha")
        state["value"] = 1

        delta = await page.receive_parts()

        assert delta["parts"] == {"test_silent": {"value": 1}}
        assert delta["committed_at"] is None
    forget_part("test_silent")


async def test_lists_of_the_server_have_commit_times_too() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("runs")
        before = datetime.now(UTC)

        await in_database(make_run)()

        assert datetime.fromisoformat((await page.receive("delta"))["committed_at"]) > before


async def test_a_page_that_lost_a_frame_requests_a_snapshot() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("run:alpha")
        await note(run, "one")
        delta = await page.receive("delta")

        await page.send(type="resync", topic="run:alpha")
        snapshot = await page.receive("snapshot")

        assert snapshot["sequence"] >= delta["sequence"]
        assert snapshot["series"]["events"][-1]["message"] == "one"


async def test_simultaneous_changes_are_sent_in_few_frames() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("run:alpha")
        began, frames = time.monotonic(), 0
        for number in range(40):
            await note(run, str(number))

        messages: list[str] = []
        while len(messages) < 40:
            delta = await page.receive("delta")
            frames += 1
            messages += [event["message"] for event in delta["series"]["events"]]

        assert messages == [str(number) for number in range(40)]
        assert frames <= (time.monotonic() - began) / FRAME_SECONDS + 2


async def test_two_pages_of_a_topic_get_the_same_frames() -> None:
    run = await in_database(make_run)()
    headers = await in_database(cookie_of)("viewer")
    async with opened("/ws/live", headers) as one, opened("/ws/live", headers) as two:
        first = await one.watch("run:alpha")
        second = await two.watch("run:alpha")
        assert first["parts"] == second["parts"]

        await note(run, "both")

        assert await one.receive("delta") == await two.receive("delta")


async def test_a_hidden_page_receives_the_run_only_and_catches_up_when_it_is_shown() -> None:
    state = {"value": 0}
    parts.PARTS["test_noise"] = lambda _: dict(state)
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")
        await page.send(type="visible", visible=False)

        state["value"] = 1
        await sync_to_async(announce)(run.pk, "test_noise")
        assert await page.receives_nothing(seconds=0.5)
        await apply_verb(run, RunVerb.PAUSE)
        delta = await page.receive_parts()
        assert delta["previous"] >= snapshot["sequence"]
        assert set(delta["parts"]) == {"run"}

        await page.send(type="visible", visible=True)
        caught_up = await page.receive("snapshot")
        assert caught_up["parts"]["test_noise"] == {"value": 1}
        assert caught_up["sequence"] >= delta["sequence"]
    forget_part("test_noise")


def forget_part(name: str) -> None:
    parts.PARTS.pop(name)


async def test_a_part_that_cannot_be_read_does_not_close_the_page() -> None:
    def broken(run_id: int) -> None:
        raise ZeroDivisionError

    parts.PARTS["test_broken"] = broken
    await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")

        assert "run" in snapshot["parts"]
        assert "test_broken" not in snapshot["parts"]
    forget_part("test_broken")


async def test_the_list_of_runs_is_live_too() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("runs")
        assert snapshot["parts"] == {"active": [], "heartbeats": [], "resting": []}

        run = await in_database(make_run)()
        delta = await page.receive("delta")
        # Resolved alerts are not sent again on other changes.
        assert set(delta["parts"]) == {"active"}
        assert [run["name"] for run in delta["parts"]["active"]] == ["alpha"]

        await apply_verb(run, RunVerb.KILL)
        over = await page.receive("delta")
        assert over["parts"]["active"] == []
        assert [run["name"] for run in over["parts"]["resting"]] == ["alpha"]


async def test_the_page_of_the_default_run_follows_its_reset() -> None:
    old = await in_database(default_run)(now=NOON)
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        before = await page.watch("run:default")
        fresh = await in_database(reset_run)(run_id=old.pk, actor="tests", now=NOON)

        async with asyncio.timeout(20):
            while True:
                delta = await page.receive("delta")
                if delta["parts"].get("run", {}).get("id") == fresh.pk:
                    break

        assert before["parts"]["run"]["id"] != fresh.pk


async def test_a_socket_that_was_idle_for_several_heartbeats_still_receives_at_once() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("run:alpha")
        for _ in range(4):
            await page.receive("beat")

        began = time.monotonic()
        await apply_verb(run, RunVerb.PAUSE)
        await page.receive("delta")

        assert time.monotonic() - began < SOONER_THAN_A_POLL


async def test_a_page_that_does_not_keep_up_loses_deltas_and_gets_a_snapshot() -> None:
    run = await in_database(make_run)()
    slow = Socket()
    hub(read_clock).subscribe(slow, "run:alpha")
    async with asyncio.timeout(20):
        assert json.loads(await slow.frames.get())["type"] == "snapshot"
    for _ in range(QUEUE_FRAMES):
        assert slow.offer("{}")

    await note(run, "lost")
    async with asyncio.timeout(20):
        while slow.sequences["run:alpha"] is not None:  # noqa: ASYNC110 the hub has no event for it
            await asyncio.sleep(0.02)
    assert slow.frames.qsize() == QUEUE_FRAMES
    while not slow.frames.empty():
        slow.frames.get_nowait()

    async with asyncio.timeout(20):
        snapshot = json.loads(await slow.frames.get())
    assert snapshot["type"] == "snapshot"
    assert snapshot["series"]["events"][-1]["message"] == "lost"
    hub(read_clock).leave(slow)


async def test_rollout_handlers_receive_commands_of_the_run_at_once() -> None:
    run = await in_database(make_run)(kind="outside", batch_size=8, off_policy_tolerance=2.0)
    path = "/ws/runs/alpha/control"
    async with opened(path, await in_database(headers_of)("env", run=run)) as handler:
        first = await handler.receive("control")
        assert (first["desired"], first["queue_size"], first["threshold"]) == ("running", 0, 16.0)
        assert (first["epoch"], first["policy_step"]) == (0, -2)

        await apply_verb(run, RunVerb.PAUSE)

        assert (await handler.receive("control"))["desired"] == "paused"


async def test_pages_are_updated_by_polling_without_redis(settings: Any) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")

        await apply_verb(run, RunVerb.PAUSE)
        delta = await page.receive_parts()

        assert delta["previous"] >= snapshot["sequence"]
        assert delta["parts"]["run"]["status"] == RunStatus.PAUSED


async def test_a_change_of_status_sends_its_diagnosis_at_once() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("run:alpha")
        assert snapshot["parts"]["diagnosis"]["run_status"] == "running"

        await apply_verb(run, RunVerb.PAUSE)
        delta = await page.receive_parts()
        while "diagnosis" not in delta["parts"]:
            delta = await page.receive_parts()

        assert delta["parts"]["diagnosis"]["run_status"] == "paused"
        assert delta["parts"]["diagnosis"]["summary"].startswith("The run is paused")
        # Only announced changes have a commit time.
        assert delta["committed_at"] is not None
