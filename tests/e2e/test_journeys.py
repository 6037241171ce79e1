"""From a drop in a curve to the sample that explains it; from a failing prompt to its answers.

Each journey takes at most three clicks.
"""

from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from rolldeck.trainer import Trainer
from tests.e2e.pushed_groups import conversation, outside_run, push
from tests.server import ADMIN_TOKEN, Server, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.system]

STEPS = 6
DROP = 4
"""Train step whose batch has the bad groups."""
GROUPS_OF_BATCH = 4
REFUSAL = "I refuse to count."


@pytest.fixture(scope="module")
def run(server: Server) -> str:
    """An outside run with a batch of four groups per train step; the scores drop in one step."""
    name = f"journeys-{uuid4().hex[:6]}"
    outside_run(server, name)
    with Trainer(server.url, name, ADMIN_TOKEN) as trainer:
        trainer.register(batch_size=2 * GROUPS_OF_BATCH)
        for step in range(1, STEPS + 1):
            is_drop = step == DROP
            usual = [0.2, 0.4] if is_drop else [0.8, 1.0]
            groups = [
                conversation(f"Count to {step + place}", "1 2 3", f"1 2 {step}", scores=usual)
                for place in range(GROUPS_OF_BATCH)
            ]
            if is_drop:
                groups[2] = conversation("How many?", REFUSAL, "No.", scores=[0.0, 0.0])
            push(server, name, *groups)
            batch = trainer.next_batch()
            assert batch is not None
            assert batch.head.ordinal == step
            trainer.ack(batch)
    push(server, name, conversation("How many?", "Four of them.", "Four.", scores=[1.0, 1.0]))
    curve = f"/api/v1/runs/{name}/metrics/samples?name=rolldeck/reward/mean&limit=100"
    # A measurement between two pushes gives one step two points, so their number is not enough.
    wait_until(
        lambda: set(server.get(curve)["step"]) == set(range(STEPS + 1)),
        seconds=60,
        what="the curve has a point at 0 to 6 served batches",
    )
    return name


def test_two_clicks_lead_from_a_drop_in_the_curve_to_the_worst_sample(
    signed_in: Page, run: str
) -> None:
    page = signed_in
    page.goto(f"/runs/{run}?x=step")
    area = page.get_by_role("region", name="Reward").locator(".u-over")
    expect(page.get_by_role("region", name="Reward").locator("canvas")).to_be_visible()
    # The points are at 0 to 6 served batches; the fourth batch was formed after three.
    area.hover()
    expect(page.get_by_text(f"train step {DROP - 1}", exact=True).first).to_be_visible()
    area.click()
    worst = page.get_by_role("table", name="Groups with the lowest scores")
    worst.get_by_role("link").first.click()

    expect(page.get_by_label("Message 2, assistant")).to_contain_text(REFUSAL)
    expect(page.get_by_text(f"Trained on in batch {DROP}")).to_be_visible()


def test_three_clicks_lead_from_a_failing_prompt_to_how_its_answers_changed(
    signed_in: Page, run: str
) -> None:
    page = signed_in
    page.goto(f"/runs/{run}/trajectories?sort=score")

    page.get_by_role("link", name="How many?").first.click()
    page.get_by_role("tab", name="Over versions").click()
    page.get_by_label("Select group").nth(1).check()

    expect(page.locator("[data-text] del", has_text="refuse")).to_be_visible()
    expect(page.locator("[data-text] ins").first).to_contain_text("Four")
