"""A user pins and unpins a policy version, and sees which workers have applied it."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from rolldeck.trainer import Trainer
from rolldeck.wire import ReplicaReport
from tests.e2e.simulated_manager import SimulatedManager, simulated_manager
from tests.server import ADMIN_TOKEN, Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# In every frame: the newest version by the panel, by the table, and the one that workers use.
WATCH = r"""() => {
    window.samples = [];
    const note = () => {
        const panel = document.querySelector("section[aria-label='Active weights']");
        const newest = Number(panel.textContent.match(/newest version, (\d+)/)?.[1]);
        const listed = Number(document.querySelector("[data-version]")?.dataset.version);
        const used = Number(panel.textContent.match(/workers? uses? version (\d+)/)?.[1]);
        window.samples.push([newest, listed, used]);
        requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
}"""


def test_pins_and_unpins_of_a_version_reach_the_workers(signed_in: Page, server: Server) -> None:
    name, page = f"weights-by-hand-{uuid4().hex[:6]}", signed_in
    with (
        simulated_manager(server, name) as fleet,
        Trainer(server.url, name, ADMIN_TOKEN) as trainer,
    ):
        trainer.register()
        for step in range(3):
            trainer.publish_weights({"w": np.full(1, step, dtype=np.float32)}, step=step)
        fleet.acts_with(2, order=0)
        page.goto(f"/runs/{name}/weights")
        held = page.get_by_role("region", name="Active weights")
        expect(held).to_contain_text("Workers follow the newest version, 2.")
        expect(held).to_contain_text("2 of 2 workers use version 2")

        held.get_by_role("button", name="Pin a version…").click()
        dialog = page.get_by_role("dialog", name="Pin a version")
        expect(dialog).to_contain_text("data of version 2 becomes staler")
        dialog.get_by_label("Version").select_option("1")
        dialog.get_by_label("Reason").fill("version 2 collapses")
        dialog.get_by_role("button", name="Pin", exact=True).click()
        expect(held).to_contain_text("Workers are pinned to version 1. The newest is 2, 1 ahead.")
        expect(held).to_contain_text("By ada")
        expect(held).to_contain_text("version 2 collapses")
        # Requested, but not applied by any worker yet.
        expect(held).to_contain_text("0 of 2 workers use version 1 under order 1")
        versions = page.get_by_role("table", name="Versions, newest first")
        expect(versions.locator("[data-version='1']")).to_contain_text("pinned")
        expect(versions.locator("[data-version='2']")).to_contain_text("not distributed")

        assert fleet.control is not None
        fleet.acts_with(1, order=1)
        expect(held).to_contain_text("2 of 2 workers use version 1 under order 1")
        assert (fleet.control.policy_step, fleet.control.weights_command) == (1, 1)

        held.get_by_role("button", name="Follow newest…").click()
        page.get_by_role("button", name="Follow newest", exact=True).click()
        expect(held).to_contain_text("Workers follow the newest version, 2.")
        expect(held).to_contain_text("0 of 2 workers use version 2 under order 2")
        fleet.acts_with(2, order=2)
        expect(held).to_contain_text("2 of 2 workers use version 2 under order 2")


@contextmanager
def first_version(
    page: Page, server: Server, name: str
) -> Iterator[tuple[SimulatedManager, Trainer]]:
    """Publish version 0 of a run, let its fleet use it, and open the page of its weights."""
    with (
        simulated_manager(server, name) as fleet,
        Trainer(server.url, name, ADMIN_TOKEN) as trainer,
    ):
        trainer.register()
        trainer.publish_weights({"w": np.zeros(1, dtype=np.float32)}, step=0)
        fleet.acts_with(0, order=0)
        page.goto(f"/runs/{name}/weights")
        yield fleet, trainer


def test_the_page_shows_one_newest_version_at_each_moment(signed_in: Page, server: Server) -> None:
    name, page = f"weights-of-one-frame-{uuid4().hex[:6]}", signed_in
    with first_version(page, server, name) as (fleet, trainer):
        held = page.get_by_role("region", name="Active weights")
        expect(held).to_contain_text("2 of 2 workers use version 0")
        page.evaluate(WATCH)
        for step in range(1, 7):
            trainer.publish_weights({"w": np.zeros(1, dtype=np.float32)}, step=step)
            fleet.acts_with(step, order=0)
            expect(held).to_contain_text(f"2 of 2 workers use version {step}")
    samples = page.evaluate("window.samples")
    assert {newest for newest, *_ in samples} == set(range(7))
    assert [sample for sample in samples if max(sample[1:]) > sample[0]] == []
    assert [sample for sample in samples if sample[0] != sample[1]] == []


def test_engines_of_the_inference_server_are_listed_with_their_versions(
    signed_in: Page, server: Server
) -> None:
    name, page = f"weights-of-engines-{uuid4().hex[:6]}", signed_in
    with first_version(page, server, name) as (fleet, _):
        expect(page.get_by_role("region", name="Active weights")).to_contain_text("2 of 2 workers")
        engines = page.get_by_role("region", name="Inference engines")
        expect(engines).to_have_count(0)

        ready = ReplicaReport(address="gpu-1:8000", version=(1, 0), contact_seconds=2.0)
        lost = ReplicaReport(address="gpu-2:8000", error="connection refused")
        fleet.usage = lambda index: {"replicas": [ready, lost] if index else [ready]}

        expect(engines.locator("[data-replica='gpu-1:8000']")).to_contain_text("1.0")
        expect(engines.locator("[data-replica='gpu-2:8000']")).to_contain_text("connection refused")
