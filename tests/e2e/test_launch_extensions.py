"""Registered wrappers and callbacks are chosen in the launch form, with their arguments."""

import json
import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000
TIME_LIMIT = "module:gymnasium.wrappers:TimeLimit"


def open_environment(page: Page) -> None:
    page.get_by_role("button", name=re.compile(r"^Environment \d+ field")).click()


def add(page: Page, field: str, name: str, arguments: str) -> None:
    page.get_by_role("button", name=f"Add to {field.lower()}", exact=True).click()
    page.get_by_role("combobox", name=f"{field} 1", exact=True).click()
    page.get_by_role("option", name=name).click()
    page.get_by_label(f"Arguments of {field.lower()} 1", exact=True).fill(arguments)


def test_extensions_are_selected_and_their_arguments_become_configuration(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole&view=config")
    shown = page.get_by_label("Resolved configuration")
    open_environment(page)
    add(page, "Wrappers", TIME_LIMIT, '{"max_episode_steps": ')
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_text("Row 1: enter arguments as a JSON object")).to_be_visible()

    page.get_by_label("Arguments of wrappers 1", exact=True).fill('{"max_episode_steps": 9}')
    callbacks = page.get_by_role("group", name="Callbacks", exact=True)
    expect(callbacks).to_contain_text("None are registered on this server.")
    wrappers = [{"kind": TIME_LIMIT, "kwargs": {"max_episode_steps": 9}}]
    expect(shown).to_have_value(re.compile(r'"max_episode_steps": 9'))
    assert json.loads(shown.input_value())["environment"]["wrappers"] == wrappers

    page.get_by_role("button", name="Remove wrappers 1", exact=True).click()
    expect(shown).to_have_value(re.compile(r'"wrappers": \[\]'))


def test_a_check_reports_a_faulty_wrapper_at_its_field(signed_in: Page) -> None:
    page = signed_in
    page.goto("/runs/new?preset=cartpole")
    open_environment(page)
    add(page, "Wrappers", TIME_LIMIT, "")
    page.get_by_role("button", name="Check", exact=True).click()

    expect(page.locator("[data-result=refused]")).to_be_visible(timeout=CHECKED_WITHIN_MS)
    found = page.locator("[data-finding='environment.wrappers[0]']")
    expect(found).to_contain_text("missing 1 required positional argument")
    field = page.get_by_role("group", name="Wrappers", exact=True)
    expect(field).to_contain_text("missing 1 required positional argument")
