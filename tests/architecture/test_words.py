"""Texts are plain English: no retired words, and docstrings begin with a noun or an imperative."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    *("platform", "runs", "buffer", "rollouts", "client", "examples", "benchmarks", "tests"),
    "frontend/src",
    "docs",
)
SKIPPED: Final = {
    *("migrations", "node_modules", ".venv-peers"),
    *("schema.d.ts", "openapi.json", "test_words.py"),
}
STILTED: Final = re.compile(
    r"\b(nobody|somebody|anybody|whoever|whomever|anew|is told|are told|was told|were told"
    r"|goes? by (itself|themselves)|of one'?s own|in vain|as it were|farewells?|errands?)\b",
    re.IGNORECASE,
)
STILTED_NAME: Final = re.compile(
    r"(?<![a-z0-9])(says?|said|tells?|told|lets|knows?|sees?|asks?|asked|speaks?|spoken|hears?|heard"
    r"|goes_on|go_on|comes?|came|what|who|whoever|whatever|whichever|nobody|somebody|anybody"
    r"|anew|afresh|in_vain|of_(its|their|ones)_own|by_(itself|themselves|hand)|as_it_(is|was)"
    r"|stands?|stays_away|given_(up|back)|taken_away|left_alone|for_ever|makes_no_sense"
    r"|(not|cannot)_be_(is|are)|fate)(?![a-z0-9])"
)
"""Words in names of tests that a noun or verb of the domain replaces."""
ALLOWED_NAMES: Final = frozenset(
    {
        # A chunk that is cut once it is complete; not "as it is".
        "test_a_chunk_is_cut_as_soon_as_it_is_complete",
        # Data as the policy sampled it, the subject of the test.
        "test_a_fragment_is_evaluated_as_it_was_sampled",
    }
)
CLAUSE: Final = re.compile(
    r"^(what|whatever|who|whoever|whose|how|where|when|why|say|says|tell|tells|let|lets|have|has"
    r"|shape|it)\b",
    re.IGNORECASE,
)


def sources(*suffixes: str) -> list[Path]:
    """Return the files with these suffixes that people write."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*")))
    return [
        file
        for file in files
        if file.suffix in suffixes and not SKIPPED & {*file.relative_to(ROOT).parts}
    ]


@cache
def python_texts(file: Path) -> list[tuple[int, str, bool]]:
    """Return line, text and whether it is a docstring, of docstrings, comments and messages."""
    return list(_python_texts(file))


def _python_texts(file: Path) -> Iterator[tuple[int, str, bool]]:
    source = file.read_text()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.add(node.body[0].value)  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value, node in docstrings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def findings(file: Path, line: int, text: str) -> Iterator[str]:
    """Yield the retired words of a text with their place."""
    for match in STILTED.finditer(text):
        yield f"{file.relative_to(ROOT)}:{line}: {match.group()}"


def test_python_texts_use_no_retired_words() -> None:
    matches = [
        finding
        for file in sources(".py")
        for line, text, _ in python_texts(file)
        for finding in findings(file, line, text)
    ]

    assert not matches, "\n".join(matches)


def test_docstrings_begin_with_a_noun_or_an_imperative() -> None:
    matches = [
        f"{file.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for file in sources(".py")
        for line, text, is_docstring in python_texts(file)
        if is_docstring and CLAUSE.match(text)
    ]

    assert not matches, "\n".join(matches)


def test_names_of_tests_state_a_subject_and_a_fact() -> None:
    names = {
        (file, node.lineno, node.name)
        for file in sources(".py")
        if file.is_relative_to(ROOT / "tests")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    }
    matches = [
        f"{file.relative_to(ROOT)}:{line}: {match.group()} in {name}"
        for file, line, name in sorted(names)
        for match in STILTED_NAME.finditer(name.removeprefix("test_"))
        if name not in ALLOWED_NAMES
    ]

    assert len(names) > 1000
    assert {name for _, _, name in names} >= ALLOWED_NAMES
    assert not matches, "\n".join(matches)


def test_names_of_test_modules_are_nouns() -> None:
    matches = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in sources(".py")
        if file.is_relative_to(ROOT / "tests")
        for match in STILTED_NAME.finditer(file.stem)
    ]

    assert not matches, "\n".join(matches)


@pytest.mark.parametrize("suffix", [".ts", ".tsx", ".js", ".md"])
def test_other_texts_use_no_retired_words(suffix: str) -> None:
    matches = [
        finding
        for file in sources(suffix)
        for line, text in enumerate(file.read_text().splitlines(), start=1)
        for finding in findings(file, line, text)
    ]

    assert not matches, "\n".join(matches)
