"""The lessons of a language run are edited in a table of the launch form."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

FOUR, EIGHT, TWELVE, SORT = (
    "reverse-4-letters",
    "reverse-8-letters",
    "reverse-12-letters",
    "sort-2-digits",
)
# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS = 90_000


@pytest.fixture
def page(signed_in: Page) -> Page:
    signed_in.goto("/runs/new?preset=curriculum&view=config")
    expect(name_of(signed_in, 4)).to_have_value(SORT)
    return signed_in


def name_of(page: Page, position: int) -> Locator:
    return page.get_by_label(f"Name of lesson {position}", exact=True)


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()


def language(page: Page, pattern: str) -> dict[str, Any]:
    """Return the language settings of the resolved configuration when they match a pattern."""
    shown = page.get_by_label("Resolved configuration")
    expect(shown).to_have_value(re.compile(pattern))
    settings: dict[str, Any] = json.loads(shown.input_value())["language"]
    return settings


def test_a_row_shows_the_essential_fields_of_each_lesson(page: Page) -> None:
    expect(page.get_by_role("table", name="Lessons").locator("tbody tr")).to_have_count(4)
    expect(page.get_by_label(f"Environment of {EIGHT}", exact=True)).to_have_value("task:reverse")
    arguments = page.get_by_label(f"Arguments of {EIGHT}", exact=True)
    expect(arguments).to_have_value('{"length":3,"letters":8}')
    expect(page.get_by_label(f"Longest turn of {EIGHT}", exact=True)).to_have_value("8")
    expect(page.get_by_label(f"Learnt at of {EIGHT}", exact=True)).to_have_value("0.9")
    requires = page.get_by_role("button", name=f"Requires of {EIGHT}: {FOUR} ≥ 0.5")
    expect(requires).to_be_visible()
    expect(page.locator("#environments-of-tokens option[value='task:addition']")).to_be_attached()


def test_lessons_are_added_renamed_duplicated_moved_and_deleted(page: Page) -> None:
    name_of(page, 1).fill("easy")
    name_of(page, 1).press("Enter")
    expect(page.get_by_role("button", name=f"Requires of {EIGHT}: easy ≥ 0.5")).to_be_visible()

    press(page, f"Move {SORT} up")
    expect(name_of(page, 3)).to_have_value(SORT)
    expect(page.get_by_role("button", name=f"Move {SORT} up", exact=True)).to_be_focused()
    press(page, f"Move {TWELVE} up")
    press(page, f"Move {TWELVE} down")
    expect(page.get_by_role("button", name=f"Move {TWELVE} up", exact=True)).to_be_focused()
    press(page, f"Duplicate {SORT}")
    expect(name_of(page, 4)).to_have_value(f"{SORT}-2")
    press(page, "Delete easy")
    expect(name_of(page, 1)).to_have_value(EIGHT)
    press(page, "Add a lesson")
    expect(name_of(page, 5)).to_be_focused()
    page.get_by_label("Environment of lesson", exact=True).fill("task:addition")

    settings = language(page, r'"lesson_order": \[[^\]]*"lesson"\s*\]')
    assert settings["lesson_order"] == [EIGHT, SORT, f"{SORT}-2", TWELVE, "lesson"]
    assert settings["lessons"]["lesson"]["spec"] == "task:addition"
    assert settings["lessons"][f"{SORT}-2"] == settings["lessons"][SORT]


def test_other_fields_and_requirements_are_in_the_editor(page: Page) -> None:
    press(page, f"More fields of {SORT}")
    editor = page.get_by_role("group", name=f"Lesson {SORT}", exact=True)
    editor.get_by_label("Temperature", exact=True).fill("0.7")
    press(page, "Add a required lesson")
    editor.get_by_role("combobox", name="Required lesson 1").click()
    page.get_by_role("option", name=TWELVE).click()
    editor.get_by_label("Minimum success of required lesson 1").fill("0.25")

    lesson = language(page, r'"min_success": 0\.25')["lessons"][SORT]
    assert lesson["sampling"]["temperature"] == 0.7
    assert lesson["requires"] == [{"lesson": TWELVE, "min_success": 0.25}]


def test_json_and_table_show_the_same_lessons(page: Page) -> None:
    view = page.get_by_role("radiogroup", name="View of the lessons")
    view.get_by_text("JSON", exact=True).click()
    text = page.get_by_label("Lessons as JSON")
    text.fill('{"add": {"spec": "task:addition", "nope": 1}}')
    expect(page.get_by_text("add: there is no field nope.").first).to_be_visible()
    text.fill('{"add": {"spec": "task:addition"}, "sort": {"spec": "task:sort"}}')

    view.get_by_text("Table", exact=True).click()
    expect(name_of(page, 1)).to_have_value("add")
    expect(page.get_by_label("Environment of sort", exact=True)).to_have_value("task:sort")


def test_each_error_is_at_its_field_of_its_lesson(page: Page) -> None:
    page.get_by_label(f"Environment of {EIGHT}", exact=True).fill("task:nope")
    page.get_by_label(f"Arguments of {SORT}", exact=True).fill('{"size": 2}')
    press(page, "Check")
    expect(page.locator("[data-result=refused]")).to_be_visible(timeout=CHECKED_WITHIN_MS)
    for label in (f"Environment of {EIGHT}", f"Arguments of {SORT}"):
        field = page.get_by_label(label, exact=True)
        expect(field).to_have_attribute("aria-invalid", "true")
    right = page.get_by_label(f"Environment of {SORT}", exact=True)
    expect(right).not_to_have_attribute("aria-invalid", "true")

    press(page, f"More fields of {FOUR}")
    page.get_by_role("group", name=f"Lesson {FOUR}").get_by_label("Top-p").fill("2")
    press(page, f"More fields of {FOUR}")
    name_of(page, 4).fill(EIGHT)
    press(page, "Launch")
    expect(name_of(page, 4)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Another row has this name.").first).to_be_visible()
    top_p = page.get_by_role("group", name=f"Lesson {FOUR}").get_by_label("Top-p")
    expect(top_p).to_have_attribute("aria-invalid", "true")
