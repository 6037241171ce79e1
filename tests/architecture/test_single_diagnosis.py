"""One module diagnoses the bottleneck of a run, and one function formats amounts."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVER = ("client", "runs", "buffer", "rollouts", "frontend", "platform", "examples")
JUDGES = {
    f"rollouts/diagnosis/rules/{name}.py" for name in ("missing", "pace", "problems", "states")
}
# Phrases of a diagnosis of throughput.
JUDGING = re.compile(r"the bottleneck|-bound:|trainer is too slow", re.IGNORECASE)


def sources(*folders: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for top in folders:
        for folder, below, names in os.walk(ROOT / top):
            below[:] = [name for name in below if name not in {"node_modules", "dist"}]
            for path in (Path(folder, name) for name in names):
                if path.suffix in suffixes:
                    yield str(path.relative_to(ROOT)), path.read_text()


def test_only_the_diagnosis_names_a_bottleneck() -> None:
    pages = sources("frontend/src", suffixes=(".tsx", ".ts"))
    texts = [*sources(*SERVER, suffixes=(".py",)), *pages]
    said_by = {
        name
        for name, text in texts
        if name not in JUDGES and "test" not in Path(name).name and _said(text)
    }

    assert texts
    assert said_by == set()


def _said(text: str) -> bool:
    """Return whether a user-visible text contains a diagnosis; comments and docstrings may."""
    notes = ("#", "*", "//", "/*")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(notes)]
    code = re.sub(r'"""(?:.|\n)*?"""', "", "\n".join(lines))
    return JUDGING.search(code) is not None


def test_one_field_of_the_api_has_the_diagnosis_of_a_run() -> None:
    from rollouts.control.schemas import FleetState, WorkerState
    from rollouts.diagnosis.schemas import DiagnosisList, Pipeline
    from runs.search.schemas import RunActivity

    schemas = {
        shape.__name__
        for shape in (FleetState, WorkerState, RunActivity, Pipeline, DiagnosisList)
        if {"diagnosis", "bottleneck"} & set(shape.__struct_fields__)
    }

    assert schemas == {"Pipeline"}


@pytest.mark.parametrize(
    ("folders", "suffixes", "pattern", "home"),
    [
        (SERVER, (".py",), r":\.\d%\}", "platform/web/rules/amounts.py"),
        (("frontend/src",), (".ts", ".tsx"), r"\} %[`<]", "frontend/src/format.ts"),
    ],
)
def test_percent_is_written_by_one_function_on_each_side(
    folders: tuple[str, ...], suffixes: tuple[str, ...], pattern: str, home: str
) -> None:
    elsewhere = [
        name
        for name, text in sources(*folders, suffixes=suffixes)
        if name != home and re.search(pattern, text)
    ]

    assert elsewhere == []
