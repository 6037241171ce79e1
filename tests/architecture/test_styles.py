"""Style sheets of the dashboard: sizes, weights and radii are tokens of the theme."""

import re
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).resolve().parents[2] / "frontend/src"
TOKENS: Final = {
    "font-size": r"var\(--mantine-(font-size-(xs|sm|md|lg|xl)|h[1-3]-font-size)\)|inherit",
    "font-weight": r"var\(--mantine-font-weight-(regular|medium|bold)\)|inherit",
    "border-radius": r"((var\(--mantine-radius-(sm|md|xl)\)|0)\s*){1,4}|inherit",
}
FACES: Final = SOURCE / "theme/fonts.css"
# Properties of Mantine and inline styles that take a number or a length.
LITERAL: Final = re.compile(
    r"\b(?:fz|fontSize|fw|fontWeight|radius|borderRadius)(?:=\{?|: )\"?[\d.]+(?:px|rem|em|%)?\"?"
)


def literals(property_: str, css: str) -> list[str]:
    """Return the values of a property that are not tokens."""
    values = re.findall(rf"(?<![\w-]){property_}:\s*([^;}}]+)", css)
    return [value.strip() for value in values if not re.fullmatch(TOKENS[property_], value.strip())]


@pytest.mark.parametrize("property_", TOKENS)
def test_style_sheets_use_the_tokens_of_the_theme(property_: str) -> None:
    found = {
        str(sheet.relative_to(SOURCE)): values
        for sheet in sorted(SOURCE.rglob("*.css"))
        if sheet != FACES and (values := literals(property_, sheet.read_text()))
    }

    assert found == {}


def test_components_use_the_tokens_of_the_theme() -> None:
    found = {
        str(path.relative_to(SOURCE)): values
        for path in sorted(SOURCE.rglob("*.tsx"))
        if (values := LITERAL.findall(path.read_text()))
    }

    assert found == {}


@pytest.mark.parametrize(
    ("property_", "css", "found"),
    [
        ("font-size", "a { font-size: 11px; }", ["11px"]),
        ("font-size", "a { font-size: 0.9em }", ["0.9em"]),
        ("font-size", "a { font-size: var(--mantine-font-size-xs); }", []),
        ("font-weight", "a { font-weight: 650; }", ["650"]),
        ("font-weight", "a { font-weight: bold; }", ["bold"]),
        ("border-radius", "a { border-radius: 0 4px 4px 0; }", ["0 4px 4px 0"]),
        ("border-radius", "a { border-radius: var(--mantine-radius-sm) 0 0 0; }", []),
    ],
)
def test_literals_are_found(property_: str, css: str, found: list[str]) -> None:
    assert literals(property_, css) == found


@pytest.mark.parametrize("tsx", ["<Text fw={500}>", '<Text fz="11px">', "style={{ fontSize: 11 }}"])
def test_literals_in_components_are_found(tsx: str) -> None:
    assert LITERAL.search(tsx)
