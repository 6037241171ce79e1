"""Size limits: files up to 500 lines that are not blank, functions up to 80 lines."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [
    "platform",
    "runs",
    "buffer",
    "rollouts",
    "frontend",
    "client",
    "examples",
    "benchmarks",
]
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80


def sources() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts and not {"node_modules", ".venv-peers"} & set(path.parts)
    ]


def test_no_file_exceeds_the_line_limit() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := len(re.findall(r"\S[^\n]*", path.read_text()))) > MAX_FILE_LINES
    }

    assert long == {}


def test_no_function_exceeds_the_line_limit() -> None:
    long = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines

    assert long == {}


def test_every_module_has_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources()
        if (text := path.read_text()).strip() and not ast.get_docstring(ast.parse(text))
    ]

    assert silent == []
