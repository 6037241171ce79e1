"""The launch form in a browser: write YAML, check, and read the errors."""

from typing import Final

from playwright.sync_api import Locator, Page, expect

# Foreign code is probed in its own process, which takes long on a busy machine.
CHECKED_WITHIN_MS: Final = 90_000


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Configuration as YAML")


def write(page: Page, text: str) -> None:
    """Replace the whole configuration."""
    editor(page).click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def error_at(page: Page, field: str) -> Locator:
    """The error of a field below the editor."""
    return page.get_by_role("list", name="Errors").locator(f"[data-error='{field}']")


def check(page: Page, result: str) -> Locator:
    """Check the form and return the findings."""
    page.get_by_role("button", name="Check", exact=True).click()
    found = page.locator(f"[data-result={result}]")
    expect(found).to_be_visible(timeout=CHECKED_WITHIN_MS)
    expect(found).not_to_contain_text("outdated")
    return found
