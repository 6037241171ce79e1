"""The walks of ARCHITECTURE.md list files that exist, in an order that the imports have."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"(?m)^\| `([\w./]+)` \| (.+) \|$")
SECTION = re.compile(r"(?ms)^### (.+?)\n(.*?)(?=^##)")


def walks() -> dict[str, list[tuple[str, bool]]]:
    """Return the files of each walk, and whether each is reached without an import."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    sections = page.partition("## Five walks")[2].partition("\n## ")[0] + "\n##"
    return {
        title: [(path, words.startswith("**")) for path, words in ROW.findall(text)]
        for title, text in SECTION.findall(sections)
    }


def module_of(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[1:] if parts[0] in {"platform", "client"} else parts)


def imports(path: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names} | {str(node.module)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def test_there_are_five_walks_and_the_request() -> None:
    assert len(walks()) == 6
    assert all(15 < len(files) < 45 for files in walks().values())


@pytest.mark.parametrize("title", walks())
def test_each_file_of_a_walk_is_imported_by_one_above(title: str) -> None:
    files = walks()[title]
    wrong = []
    known: set[str] = set()
    for path, is_entry in files:
        if not (ROOT / path).is_file():
            wrong.append(f"{path} does not exist")
            continue
        if not is_entry and module_of(path) not in known:
            wrong.append(f"{path} is imported by none above")
        known |= imports(path)

    assert wrong == []
    assert len({path for path, _ in files}) == len(files)
