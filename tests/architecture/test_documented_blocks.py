"""Each block of code of the site is run by a test, or listed with the reason why not."""

from pathlib import Path
from typing import Final

from tests.documented import blocks_of
from tests.documented_blocks import ELSEWHERE, NOT_RUN, RUN

ROOT: Final = Path(__file__).resolve().parents[2]
LANGUAGES: Final = {"bash", "console", "python"}
PRINTED: Final = {"reference/cli.md", "reference/client.md"}


def test_each_block_is_run_or_listed_with_a_reason() -> None:
    unlisted = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = str(path.relative_to(ROOT / "docs"))
        if page in ELSEWHERE or page in PRINTED or page.startswith("adr/"):
            continue
        names = [step.block for step in RUN.get(page, [])] + list(NOT_RUN.get(page, {}))
        unlisted += [
            f"{page}: {block.text.splitlines()[0]}"
            for block in blocks_of(page)
            if block.language in LANGUAGES and not any(name in block.text for name in names)
        ]

    assert unlisted == []


def test_each_name_is_that_of_a_block() -> None:
    named = [(page, step.block) for page, steps in RUN.items() for step in steps]
    named += [(page, name) for page, names in NOT_RUN.items() for name in names if name]
    found = {
        (page, name): [block.text for block in blocks_of(page) if name in block.text]
        for page, name in named
    }

    assert [key for key, texts in found.items() if not texts] == []
    runs = {(page, step.block) for page, steps in RUN.items() for step in steps}
    assert [key for key in runs if len(found[key]) != 1] == []


def test_the_tests_of_other_pages_exist() -> None:
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).is_file()] == []
