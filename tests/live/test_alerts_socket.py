"""The topic of alerts: its access, its content, and the detection of lost frames."""

from typing import Any

import msgspec
import pytest

from runs.access.models import ApiToken
from runs.alerts.rules import AlertKind, Condition
from runs.alerts.schemas import AlertSummary
from runs.alerts.services import alerts
from runs.events.models import RunEvent
from runs.events.services import record_event
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run, make_token
from tests.live_sockets import cookie_of, headers_of, in_database, opened

pytestmark = pytest.mark.django_db(transaction=True)


async def raise_one(run: Run | None = None, *, subject: str = "") -> int:
    condition = Condition(
        kind=AlertKind.ITEMS_CORRUPT,
        run_id=run.pk if run else None,
        subject=subject,
        message=f"bytes of {subject or 'the server'} were corrupt",
    )
    alert: int = await in_database(alerts.raise_alert)(condition, now=NOON)
    return alert


async def acknowledge(alert: int) -> None:
    await in_database(alerts.acknowledge)(
        alert_id=alert, actor="user:ada", reason="at it", now=NOON
    )


def summary(frame: Any) -> AlertSummary:
    return msgspec.convert(frame["parts"]["alerts"], AlertSummary)


async def test_an_alert_that_opens_and_is_acknowledged_is_sent_at_once() -> None:
    run = await in_database(make_run)(name="pole")
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        assert summary(await page.watch("alerts")).errors == 0

        alert = await raise_one(run, subject="batch 7")
        alerts_summary = summary(await page.receive("delta"))
        assert (alerts_summary.errors, alerts_summary.warnings, alerts_summary.acknowledged) == (
            1,
            0,
            0,
        )
        assert [(row.id, row.run, row.state) for row in alerts_summary.newest] == [
            (alert, "pole", "open")
        ]

        await acknowledge(alert)
        alerts_summary = summary(await page.receive("delta"))
        assert (alerts_summary.errors, alerts_summary.acknowledged, alerts_summary.newest) == (
            0,
            1,
            [],
        )

        await in_database(alerts.resolve)(alert_id=alert, actor="user:ada", now=NOON)
        alerts_summary = summary(await page.receive("delta"))
        assert (alerts_summary.errors, alerts_summary.acknowledged) == (0, 0)


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_every_person_receives_the_alerts_of_every_run(role: str) -> None:
    for name in ("alpha", "beta"):
        await raise_one(await in_database(make_run)(name=name))

    async with opened("/ws/live", await in_database(cookie_of)(role)) as page:
        alerts_summary = summary(await page.watch("alerts"))

    assert {row.run for row in alerts_summary.newest} == {"alpha", "beta"}


@pytest.mark.parametrize("scope", ["read", "admin"])
async def test_only_a_token_of_the_whole_server_receives_alerts(scope: str) -> None:
    run = await in_database(make_run)()
    await raise_one(run)

    async with opened("/ws/live", await in_database(headers_of)(scope)) as page:
        assert summary(await page.watch("alerts")).errors == 1
    # This includes alerts of its own run, because the summary counts all alerts.
    async with opened("/ws/live", await in_database(headers_of)(scope, run=run)) as page:
        await page.send(type="subscribe", topic="alerts")
        assert (await page.receive("error"))["code"] == "forbidden"


@pytest.mark.parametrize("scope", ["metrics", "trainer", "env", "worker"])
async def test_a_token_without_the_read_scope_receives_no_alerts(scope: str) -> None:
    async with opened("/ws/live", await in_database(headers_of)(scope)) as page:
        await page.send(type="subscribe", topic="alerts")
        assert (await page.receive("error"))["code"] == "forbidden"

        await raise_one()
        beat = await page.receive("beat", within=15)  # and no other frame before it
        assert beat["sequences"] == {}


async def test_a_token_restricted_to_a_run_loses_the_topic_with_the_next_heartbeat() -> None:
    run = await in_database(make_run)()
    token, text = await in_database(make_token)("read")
    headers = [(b"authorization", f"Bearer {text}".encode())]
    async with opened("/ws/live", headers) as page:
        await page.watch("alerts")
        await in_database(ApiToken.objects.filter(pk=token.pk).update)(run=run)

        assert (await page.socket.receive_output(20))["code"] == 4403


async def test_a_lost_frame_is_detected_by_the_next_frame_and_the_heartbeat() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("alerts")
        alert = await raise_one(subject="first")
        lost = await page.receive("delta")  # simulates a page that missed it

        # A quiet topic: no frame follows, so only the heartbeat reveals the loss.
        beat = await page.receive("beat", within=15)
        assert beat["sequences"]["alerts"] == lost["sequence"] > snapshot["sequence"]

        # A busy topic: the next frame follows another frame than the page's last.
        await raise_one(subject="second")
        assert (await page.receive("delta"))["previous"] == lost["sequence"]

        await acknowledge(alert)
        await page.send(type="resync", topic="alerts")
        while summary(made_up := await page.receive_any("snapshot", "delta")).acknowledged == 0:
            pass
        assert summary(made_up).errors == 1
        assert made_up["sequence"] > lost["sequence"]


async def test_a_hidden_page_still_receives_alerts() -> None:
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        await page.watch("alerts")
        await page.send(type="visible", visible=False)
        await raise_one()

        assert summary(await page.receive("delta")).errors == 1


async def test_an_event_of_a_run_is_not_a_change_of_alerts() -> None:
    run = await in_database(make_run)()
    async with opened("/ws/live", await in_database(cookie_of)("viewer")) as page:
        snapshot = await page.watch("alerts")
        await in_database(record_event)(
            run_id=run.pk, kind="note", message="hello", actor="tests", now=NOON
        )

        assert await in_database(RunEvent.objects.filter(kind="note").exists)()
        beat = await page.receive("beat", within=15)
        assert beat["sequences"] == {"alerts": snapshot["sequence"]}
