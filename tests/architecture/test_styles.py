"""Style sheets of the dashboard: sizes, weights and radii are tokens of the theme."""

import re
from collections.abc import Iterator
from functools import cache
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


CLASS: Final = re.compile(r"\.([A-Za-z][\w-]*)")
SELECTOR: Final = re.compile(r"([^{}]+)\{")
COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
# Sheets of classes that all pages use; every other sheet is a CSS module.
GLOBAL_SHEETS: Final = {"fonts", "roles", "base", "index"}
# Classes of libraries, and of tones, which are composed.
FOREIGN: Final = ("mantine-", "u-", "tone-", "contains-task-list")


def classes(css: str) -> set[str]:
    """Return the classes in the selectors of a style sheet."""
    selectors = " ".join(SELECTOR.findall(COMMENT.sub("", css)))
    return {name for name in CLASS.findall(selectors) if not name.startswith(FOREIGN)}


@cache
def components() -> dict[Path, str]:
    return {
        path: path.read_text()
        for path in sorted(SOURCE.rglob("*.ts*"))
        if ".test." not in path.name and path.name != "schema.d.ts"
    }


def test_only_the_theme_has_global_classes() -> None:
    sheets = {path for path in SOURCE.rglob("*.css") if not path.name.endswith(".module.css")}

    assert sheets == {SOURCE / "theme" / f"{name}.css" for name in GLOBAL_SHEETS}


def test_every_global_class_is_used() -> None:
    text = " ".join(components().values())
    unused = {
        f"{sheet.name}: {name}"
        for sheet in SOURCE.glob("theme/*.css")
        for name in classes(sheet.read_text())
        if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)
    }

    assert unused == set()


def used_classes(name: str, text: str, known: set[str]) -> set[str]:
    """Return the classes that a text takes from a module that it imports as ``name``."""
    used = set(re.findall(rf"\b{name}\.(\w+)", text))
    used |= set(re.findall(rf'\b{name}\["([\w-]+)"\]', text))
    starts = re.findall(rf"\b{name}\[`([\w-]*)", text)
    if re.search(rf"\b{name}\[\w", text):
        starts.append("")
    return used | {each for each in known for start in starts if each.startswith(start)}


def importers(sheet: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts that import a module, with the name that they give it."""
    for path, text in components().items():
        for name, place in re.findall(r'import (\w+) from "([^"]+\.module\.css)"', text):
            at = SOURCE / place[2:] if place.startswith("@/") else (path.parent / place).resolve()
            if at == sheet:
                yield name, text


def test_every_class_of_a_module_is_used_and_every_used_one_exists() -> None:
    unused, unknown = set(), set()
    for sheet in SOURCE.rglob("*.module.css"):
        known = classes(re.sub(r":global\([^)]*\)", "", sheet.read_text()))
        used = {each for name, text in importers(sheet) for each in used_classes(name, text, known)}
        unused |= {f"{sheet.relative_to(SOURCE)}: {name}" for name in known - used}
        unknown |= {f"{sheet.relative_to(SOURCE)}: {name}" for name in used - known}

    assert unused == set()
    assert unknown == set()
