"""A run is checked, cloned and launched from the form, also with the keyboard."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server import Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000


def findings(page: Page, field: str) -> Locator:
    return page.locator(f"[data-finding='{field}']")


def check(page: Page, result: str) -> None:
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(f"[data-result={result}]")).to_be_visible(timeout=CHECKED_WITHIN_MS)


@pytest.fixture
def parent(server: Server) -> Iterator[dict[str, Any]]:
    run = server.post(
        "/api/v1/runs",
        {
            "name": server.free_name("the-parent"),
            "preset": "cartpole",
            "config": {"environment": {"kwargs": {"sutton_barto_reward": True}}, "seed": 7},
        },
    )
    yield run
    server.post("/api/v1/runs/the-parent/kill")


def test_a_clone_shows_only_differences_and_survives_a_reload(
    signed_in: Page, parent: dict[str, Any], server: Server
) -> None:
    page = signed_in
    server.free_name("the-child")
    page.goto("/runs/the-parent")
    page.get_by_role("link", name="Clone").click()

    expect(page.get_by_label("Seed", exact=True)).to_have_value("7")
    # A clone has no preset: "Default" is the schema's, with the parent's value next to it.
    expect(page.get_by_text(re.compile(r"Default (empty|\d+); the-parent: 7\."))).to_be_visible()
    expect(page.get_by_text("No changes from the-parent.")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("the-child")
    page.get_by_label("Seed", exact=True).fill("8")
    page.get_by_label("Arguments", exact=True).fill('{"render_fps": 1}')
    page.reload()

    changes = page.get_by_role("table", name="Changes from the-parent")
    expect(changes.get_by_role("row")).to_have_count(3)
    expect(changes.locator("[data-change=changed][data-path=seed]")).to_contain_text("7 → 8")
    expect(changes.locator("[data-change=added]")).to_contain_text("render_fps")
    expect(changes.locator("[data-change=removed]")).to_contain_text("sutton_barto_reward")
    page.get_by_label("Arguments", exact=True).fill('{"sutton_barto_reward": true}')
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name="the-child")).to_be_visible()
    child = server.get("/api/v1/runs/the-child")
    assert child["config"] == parent["config"] | {"seed": 8}
    server.post("/api/v1/runs/the-child/kill")


def test_form_and_configuration_are_synchronized(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole&view=config")
    shown = page.get_by_label("Resolved configuration")
    page.get_by_label("Workers", exact=True).fill("3")
    expect(shown).to_have_value(json_with("fleet", "num_workers", 3))

    config = json.loads(shown.input_value())
    config["buffer"]["batch_size"] = 64
    shown.fill(json.dumps(config))
    expect(page.get_by_label("Batch size · fragments")).to_have_value("64")
    shown.fill(json.dumps(config | {"surprise": 1}))
    expect(page.get_by_text("There is no such field: surprise")).to_be_visible()

    page.get_by_text("Copy as", exact=True).click()
    command = page.get_by_label("Command", exact=True)
    expect(command).to_contain_text("rolldeck launch --name NAME --preset cartpole --config")
    expect(command).to_contain_text('{"fleet":{"num_workers":3},"buffer":{"batch_size":64}}')


def test_the_configuration_can_be_edited_as_yaml(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole&view=config")
    shown = page.get_by_label("Resolved configuration")
    page.get_by_role("radiogroup", name="Format").get_by_text("YAML").click()
    expect(shown).to_have_value(re.compile(r"^fleet:\n  num_workers: 2$", re.MULTILINE))

    written = shown.input_value()
    shown.fill(written.replace("num_workers: 2", "num_workers: 3 # more"))
    expect(page.get_by_label("Workers", exact=True)).to_have_value("3")
    shown.fill(written.replace("  num_workers: 2", "  num_workers: [2"))
    expect(page.get_by_text(re.compile(r"Invalid YAML at line \d+, column \d+"))).to_be_visible()
    shown.fill(written + "surprise: 1\n")
    lines = written.count("\n") + 1
    expect(page.get_by_text(f"There is no such field: surprise, at line {lines}")).to_be_visible()

    # The format of pasted text is detected, and the choice survives a reload.
    page.reload()
    expect(shown).to_have_value(re.compile("^  num_workers: 3$", re.MULTILINE))
    whole = json.dumps({"fleet": {"num_workers": 5}, "seed": 11})
    shown.evaluate(
        """(field, text) => {
            field.select();
            field.dispatchEvent(new ClipboardEvent("paste", { bubbles: true }));
            document.execCommand("insertText", false, text);
        }""",
        whole,
    )
    expect(page.get_by_label("Seed", exact=True)).to_have_value("11")
    expect(shown).to_have_attribute("data-format", "json")


def test_a_preset_is_saved_used_changed_and_deleted(signed_in: Page, server: Server) -> None:
    page, preset = signed_in, f"launch-six-{uuid4().hex[:6]}"
    page.goto("/runs/new?preset=cartpole")
    page.get_by_label("Workers", exact=True).fill("6")
    page.get_by_role("button", name="Save as preset").click()
    dialog = page.get_by_role("dialog", name="Save as preset")
    dialog.get_by_label("Name").fill(preset)
    dialog.get_by_label("Description").fill("six workers")
    dialog.get_by_label("Shared", exact=True).check()
    dialog.get_by_label("Reason").fill("for the sweep")
    dialog.get_by_role("button", name="Save").click()

    expect(page).to_have_url(re.compile(f"preset={preset}"))
    expect(page.get_by_text(f"No changes from {preset}.")).to_be_visible()
    expect(page.get_by_label("Workers", exact=True)).to_have_value("6")
    page.get_by_label("Workers", exact=True).fill("7")
    changes = page.get_by_role("table", name=f"Changes from {preset}")
    expect(changes.locator("[data-path='fleet.num_workers']")).to_contain_text("6 → 7")
    page.get_by_role("button", name="Save as preset").click()
    dialog.get_by_role("button", name="Replace").click()
    expect(page.get_by_text(f"No changes from {preset}.")).to_be_visible()
    stored = server.get(f"/api/v1/presets/{preset}")
    assert (stored["config"]["fleet"]["num_workers"], stored["revision"]) == (7, 2)

    page.get_by_role("button", name="Saved presets").click()
    page.get_by_role("button", name=f"Delete {preset}").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("too many")
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text(f"No preset named {preset}")).to_be_visible()
    event, *_ = server.get("/api/v1/audit?kind=preset_deleted")["results"]
    assert (event["actor"], event["reason"]) == ("user:ada", "too many")


def test_a_preset_with_a_secret_is_refused_with_its_field(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    page.get_by_label("Arguments", exact=True).fill('{"api_key": "abc"}')
    page.get_by_role("button", name="Save as preset").click()
    dialog = page.get_by_role("dialog", name="Save as preset")
    dialog.get_by_label("Name").fill("launch-secret")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("environment.kwargs.api_key")


def json_with(section: str, field: str, value: int) -> Any:
    return re.compile(rf'"{section}": {{\s+"{field}": {value},')


def test_a_check_lists_the_problems_of_a_launch(signed_in: Page, server: Server) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    page.get_by_label("Arguments", exact=True).fill('{"nonsense": 1}')
    check(page, "refused")
    bad = findings(page, "environment.spec")
    expect(bad).to_contain_text("nonsense")
    expect(page.get_by_label("Environment", exact=True)).to_have_attribute("aria-invalid", "true")

    page.goto("/runs/new?preset=curriculum")
    page.get_by_label("Batch size · fragments").fill("100")
    check(page, "refused")
    uneven = findings(page, "buffer.batch_size")
    expect(uneven).to_contain_text("not a multiple of the group size 8")
    expect(uneven).to_contain_text("Use 96 or 104")
    uneven.get_by_role("button", name="buffer.batch_size").click()
    expect(page.get_by_label("Batch size · fragments")).to_be_focused()


def test_a_run_is_launched_with_the_keyboard_alone(at_home: Page, server: Server) -> None:
    page = at_home
    server.free_name("typed-only")
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="Launch a run")).to_be_visible()
    name = page.get_by_label("Name", exact=True)
    for _ in range(60):
        if name.evaluate("field => field === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.type("typed-only")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="typed-only")).to_be_visible()
    server.post("/api/v1/runs/typed-only/kill")
