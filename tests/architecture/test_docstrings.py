"""Docstrings name only what exists."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("platform", "runs", "buffer", "rollouts", "client", "benchmarks", "examples")
EXTERNAL = {
    "AsyncGRPOTrainer",
    "Distribution",
    "EnvConfig",
    "Pss",
    "RendererConfig",
    "TrainClient",
    "Wrapper",
    "add_train_workers",
    "aiohttp",
    "break",
    "distributions",
    "env_manager",
    "fromiter",
    "get_client",
    "max_batches_offpolicy",
    "pad_data_to_good_offset",
    "worker_process_setup_hook",
}
"""Names of Linux, Python and other projects that docstrings mention and the code does not use."""
QUOTED = re.compile(r"(?<!`)(:\w+:)?`[~.]?([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")


@functools.cache
def sources() -> list[tuple[Path, ast.Module]]:
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8")))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not {"migrations", "node_modules", ".venv-peers"} & set(path.parts)
    ]


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def references(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, role and name of each reference in a docstring."""
    for node in ast.walk(tree):
        if is_docstring(node):
            for role, name in QUOTED.findall(str(node.value.value)):  # type: ignore[attr-defined]
                yield node.lineno, role, name  # type: ignore[attr-defined]


def names(tree: ast.AST) -> set[str]:
    """Return each name that code defines or uses, and each word of its texts."""
    docstrings = {id(node.value) for node in ast.walk(tree) if is_docstring(node)}  # type: ignore[attr-defined]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docstrings:
                found.update(re.findall(r"\w+", node.value))
            continue
        for attribute in ("name", "id", "attr", "arg"):
            found.update(str(getattr(node, attribute, None) or "").split("."))
    return found


def modules(paths: list[Path]) -> set[str]:
    """Return the import paths of modules and their packages."""
    found = set()
    for path in paths:
        parts = [part for part in path.with_suffix("").parts if part != "__init__"]
        parts = parts[1:] if parts[0] in {"platform", "client"} else parts
        found |= {".".join(parts[: length + 1]) for length in range(len(parts))}
    return found


def test_names_in_docstrings_exist() -> None:
    known = EXTERNAL.union(*(names(tree) for _, tree in sources()))
    known |= {part for path, _ in sources() for part in path.with_suffix("").parts}
    for path in [ROOT / "Makefile", *ROOT.glob("*/sql/*.sql")]:
        known |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))

    unknown = [
        f"{path}:{line} {name}"
        for path, tree in sources()
        for line, _, name in references(tree)
        if not known.issuperset(name.split("."))
    ]

    assert len(sources()) > 500
    assert unknown == []


def test_roles_in_docstrings_name_a_module_that_exists() -> None:
    ours = modules([path for path, _ in sources()])
    packages = {name for name in ours if "." not in name}

    wrong = [
        f"{path}:{line} {name}"
        for path, tree in sources()
        for line, role, name in references(tree)
        if role and "." in name and name.split(".")[0] in packages
        if not ours & {name, name.rpartition(".")[0], ".".join(name.split(".")[:-2])}
    ]

    assert wrong == []


def test_names_of_the_list_are_mentioned() -> None:
    mentioned = {
        part for _, tree in sources() for *_, name in references(tree) for part in name.split(".")
    }

    assert sorted(EXTERNAL - mentioned) == []
