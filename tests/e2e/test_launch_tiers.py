"""The launch form's tiers: preset cards, essential fields, and collapsed sections."""

import re
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import pages
from tests.e2e.test_page_accessibility import in_the_light, is_no_wider
from tests.server import Server, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]


@pytest.fixture
def preset(server: Server) -> Iterator[str]:
    name = f"tiers-{uuid4().hex[:6]}"
    config = {"fleet": {"num_workers": 4}}
    server.post(
        "/api/v1/presets",
        {"name": name, "description": "Four.", "access": "open", "config": config},
    )
    yield name
    server.delete(f"/api/v1/presets/{name}")


def section(page: Page, title: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"^{title} \\d+ field"))


def open_all(page: Page) -> None:
    page.get_by_role("button", name="Open all").click()
    expect(page.get_by_role("button", name="Close all")).to_be_visible()


def test_a_card_states_kind_and_needs_and_starts_the_form(signed_in: Page, preset: str) -> None:
    page = signed_in
    page.goto("/runs/new")
    cards = page.get_by_role("region", name="Presets")
    chosen = cards.locator("[data-preset=cartpole]")
    expect(chosen).to_have_attribute("aria-current", "page")
    expect(chosen).to_contain_text("CartPole-v1 with PPO")
    expect(chosen).to_contain_text("Needs 2 workers · 0.5 CPUs · no GPU")
    expect(cards.locator("[data-preset=curriculum]")).to_contain_text("language")

    own = cards.locator(f"[data-preset={preset}]")
    expect(own).to_contain_text("saved")
    own.click()
    expect(own).to_have_attribute("aria-current", "page")
    expect(page.get_by_label("Workers", exact=True)).to_have_value("4")


def test_essential_fields_are_first_and_open_sections_survive_a_reload(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=pendulum")
    essentials = page.get_by_role("group", name="Essentials")
    for label in ("Name", "Environment", "Workers", "Hidden layers", "Train steps"):
        expect(essentials.get_by_label(label, exact=True)).to_be_visible()
    expect(page.locator("#launch-tiers [data-field]")).to_have_count(12)
    fleet = section(page, "Fleet")
    expect(fleet).to_have_attribute("aria-expanded", "false")

    fleet.click()
    page.get_by_label("Send queue", exact=True).fill("5")
    expect(fleet).to_contain_text("1 changed")
    page.reload()

    expect(fleet).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_label("Send queue", exact=True)).to_have_value("5")
    expect(section(page, "Replay")).to_have_attribute("aria-expanded", "false")


def test_a_search_filters_every_tier_and_works_with_the_keyboard(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    page.get_by_role("heading", name="More settings").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("hung")
    fields = page.locator("#launch-tiers [data-field]")
    expect(fields).to_have_count(2)
    status = page.get_by_role("status").filter(has_text="match")
    expect(status).to_have_text(re.compile(r"^2 fields of \d+ match\.$"))

    page.keyboard.press("Enter")
    expect(page.get_by_label("Hung after · s", exact=True)).to_be_focused()
    search = page.get_by_role("searchbox", name="Search fields")
    search.fill("channels")
    expect(page.get_by_text(re.compile("1 more does not apply: Channels"))).to_be_visible()
    search.press("Escape")
    expect(search).to_have_value("")
    expect(fields).to_have_count(12)


def test_a_hidden_field_keeps_its_value_and_is_reported(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    channels = page.get_by_label("Channels", exact=True)
    section(page, "Policy").click()
    expect(page.get_by_role("combobox", name="Precision", exact=True)).to_be_visible()
    expect(channels).to_have_count(0)
    choose(page, "Policy", "cnn")
    channels.fill("8, 8")
    choose(page, "Policy", "mlp")
    expect(channels).to_have_count(0)

    change = page.locator("[data-path='policy.channels']")
    expect(change).to_contain_text("[16,32,32] → [8,8]")
    expect(change).to_contain_text("Hidden and without effect: applies if Policy is cnn or gru.")
    change.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("No changes from cartpole.")).to_be_visible()

    expect(page.get_by_label("Deterministic")).to_have_count(0)
    section(page, "Evaluation").click()
    page.get_by_label("Evaluate every · steps", exact=True).fill("5")
    expect(page.get_by_label("Deterministic")).to_be_visible()


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_the_default_is_the_preset_s_value_on_the_form_and_on_config(
    signed_in: Page, server: Server
) -> None:
    page = signed_in
    run = server.new_run(
        "default",
        kind="fleet",
        preset="cartpole",
        start=False,
        config={"fleet": {"num_workers": 3}},
    )
    page.goto("/runs/new?preset=cartpole")
    expect(page.get_by_text("Default 2, set by cartpole; 1 without it.")).to_be_visible()

    page.goto(f"/runs/{run}/config")
    changes = page.get_by_role("table", name="Changes from cartpole")
    expect(changes.get_by_role("row")).to_have_count(1)
    expect(changes.locator("[data-path='fleet.num_workers']")).to_contain_text("2 → 3")


@pytest.mark.parametrize("preset", ["cartpole", "curriculum"])
def test_a_form_with_every_field_wrong_shows_each_error_at_its_field(
    signed_in: Page, preset: str
) -> None:
    page = signed_in
    page.goto(f"/runs/new?preset={preset}")
    open_all(page)
    # Choices and switches have no wrong value, and the server checks names.
    paths = page.locator(
        "#launch-tiers :is(input[inputmode=decimal], textarea)[data-field]"
    ).evaluate_all("fields => fields.map((field) => field.dataset.field)")
    for path in paths:
        page.locator(f"[data-field='{path}']").fill("wrong")
    page.get_by_role("button", name="Close all").click()
    page.get_by_role("button", name="Launch", exact=True).click()

    expect(page.get_by_role("alert").filter(has_text="fields with errors")).to_contain_text(
        f"{len(paths) + 1} fields"
    )
    for path in ["name", *paths]:
        field = page.locator(f"[data-field='{path}']")
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(section(page, "Fleet")).to_contain_text("errors")
    assert len(paths) >= 20


def test_a_row_without_a_chosen_name_is_invalid_and_not_removed(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    section(page, "Environment").click()
    page.get_by_role("button", name="Add to wrappers", exact=True).click()

    change = page.locator("[data-path='environment.wrappers']")
    expect(change).to_have_attribute("data-change", "invalid")
    expect(change).to_contain_text("Row 1: choose a name.")
    expect(page.locator("[data-change=removed]")).to_have_count(0)


@pytest.mark.parametrize("preset", ["cartpole", "curriculum"])
def test_the_open_form_is_accessible_and_fits_every_screen(signed_in: Page, preset: str) -> None:
    page = signed_in
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/runs/new?preset={preset}")
    open_all(page)
    if preset == "curriculum":
        page.get_by_role("button", name="More fields of sort-2-digits").click()

    assert pages.barriers(page) == []
    with in_the_light(page):
        assert pages.barriers(page, rules=pages.COLOURS) == []
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(partial(is_no_wider, page, width), seconds=30, what=f"it fits {width} px")
        launch = page.get_by_role("button", name="Launch", exact=True)
        expect(launch).to_be_in_viewport()
