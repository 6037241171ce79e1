"""Run the tests that a change can reach by imports, the nearest first, for about two minutes.

``python -m tests.changed [REVISION]`` (`make test-changed`) takes the files that differ from the
revision: by default from HEAD, and from its parent if nothing is uncommitted. Changed test files
run as a whole, in any suite. Of the others, those of `make test` run whose imports reach a changed
module, directly or over other modules, until their measured seconds use up the budget.
"""

import ast
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import grimp

from tests.durations import stored_seconds
from tests.suites import QUICK, is_left_out

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("config", "frontend", "rollouts", "buffer", "runs", "web", "rolldeck")
SOURCE_FOLDERS: Final = ("platform/", "client/", "")
"""Folders from which modules are imported; the last one is the repository."""
# Views, consumers and jobs are called over HTTP, by Celery and by Channels. A test beside the
# capability is taken to import them.
ENTRY_POINTS: Final = ("api", "jobs", "admin", "urls", "management")
COMMAND_APPS: Final = ("config", "buffer", "rollouts")
OF_EVERY_CHANGE: Final = "tests/architecture/"
BUDGET_SECONDS: Final = 120.0
PROCESSES: Final = 2
UNMEASURED_SECONDS: Final = 0.2
"""Seconds assumed for a file that durations.json does not contain."""

Imports = Mapping[str, Iterable[str]]


def distances(changed: Iterable[str], imports: Imports) -> dict[str, int]:
    """Return the modules that reach a changed one, with the number of imports between them.

    Args:
        changed: Names of modules.
        imports: The imported modules by module.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for importer, imported in imports.items():
        for name in imported:
            importers[name].add(importer)
    reached = dict.fromkeys(changed, 0)
    queue = deque(reached)
    while queue:
        name = queue.popleft()
        for importer in sorted(importers[name] - reached.keys()):
            reached[importer] = reached[name] + 1
            queue.append(importer)
    return reached


def within_budget(
    paths: Mapping[str, int], seconds: Mapping[str, float], budget_seconds: float
) -> list[str]:
    """Return the nearest test files that fit into the budget, the quickest of a distance first."""
    chosen: list[str] = []
    for path in sorted(paths, key=lambda path: (paths[path], seconds.get(path, 0.0), path)):
        budget_seconds -= seconds.get(path, UNMEASURED_SECONDS)
        if budget_seconds >= 0:
            chosen.append(path)
    return chosen


def module_of(path: str) -> str:
    """Return the dotted name of a Python file's module."""
    folder = next(folder for folder in SOURCE_FOLDERS if path.startswith(folder))
    return path.removeprefix(folder).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def all_imports() -> dict[str, set[str]]:
    """Return the imports of every module of the product and of the tests."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    imports = {name: set(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    for path in (ROOT / "tests").rglob("*.py"):
        name = module_of(str(path.relative_to(ROOT)))
        named = set(named_modules(path, imports))
        imports[name] = named | set(_called_modules(name, imports))
        for folder in path.relative_to(ROOT).parents:
            if (ROOT / folder / "conftest.py").is_file() and path.name != "conftest.py":
                imports[name].add(module_of(f"{folder}/conftest.py"))
    return imports


def named_modules(path: Path, modules: Imports) -> Iterator[str]:
    """Yield the modules that a file imports, starts or patches."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)):
                # A module to start, an attribute to replace, a command of manage.py.
                commands = (f"{app}.management.commands.{text}" for app in COMMAND_APPS)
                started = (text, text.rpartition(".")[0], *commands)
                yield from (name for name in started if name in modules)


def _called_modules(test: str, modules: Imports) -> Iterator[str]:
    """Yield the entry points of the capability beside which a test lies."""
    _, _, *capability, _ = test.split(".") if test.count(".") > 2 else ["", "", ""]
    names = [f"{'.'.join(capability)}.{point}" for point in ENTRY_POINTS] if capability else []
    for module in modules:
        if any(module == name or module.startswith(f"{name}.") for name in names):
            yield module


def changed_paths(revision: str) -> list[str]:
    """Return the paths that differ from a revision, with those that git does not track yet."""
    tracked = _git("diff", "--name-only", revision)
    return sorted({*tracked, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def main(revision: str | None) -> int:
    """Run the tests that a change can reach; return the exit code."""
    revision = revision or ("HEAD" if changed_paths("HEAD") else "HEAD~1")
    paths = [path for path in changed_paths(revision) if (ROOT / path).exists()]
    code = 0
    if any(path.startswith("frontend/") for path in paths):
        vitest = [ROOT / ".ci" / "with-node", "npx", "vitest", "run", "--changed", revision]
        code = subprocess.run(vitest, cwd=ROOT / "frontend", check=False).returncode
    tests = [path for path in paths if _is_test(path)]
    sources = {module_of(path) for path in paths if path.endswith(".py") and not _is_test(path)}
    reached = {
        f"{name.replace('.', '/')}.py": distance
        for name, distance in distances(sources, all_imports()).items()
        if name.startswith("tests.")
    }
    reached |= {
        str(path.relative_to(ROOT)): 1 for path in (ROOT / OF_EVERY_CHANGE).glob("test_*.py")
    }
    candidates = {
        path: distance
        for path, distance in reached.items()
        if _is_test(path) and path not in tests and not is_left_out(ROOT / path, QUICK)
    }
    chosen = within_budget(candidates, stored_seconds(), BUDGET_SECONDS * PROCESSES)
    print(  # noqa: T201
        f"{len(paths)} files differ from {revision}: running {len(tests)} changed test files and "
        f"the nearest {len(chosen)} of {len(candidates)} that they reach; make test runs all"
    )
    return code or _run(tests, "not partner and not debian") or _run(chosen, QUICK)


def _is_test(path: str) -> bool:
    name = Path(path).name
    return path.startswith("tests/") and name.startswith("test_") and name.endswith(".py")


def _run(paths: list[str], expression: str) -> int:
    if not paths:
        return 0
    spread = ["-n", str(PROCESSES), "--dist", "loadscope", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *spread, "-m", expression, *paths]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if code == 5 else code  # no test of these files has the expression's markers


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [None]))
