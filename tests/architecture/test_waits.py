"""Tests wait for conditions, and never for a fixed time of more than 50 ms.

The helpers are `eventually`, `within` and `stays` in `tests/waiting.py`.
"""

import ast
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = (
    "api",
    "architecture",
    "contract",
    "e2e",
    "fuzz",
    "integration",
    "live",
    "ray",
    "system",
    "unit",
)
LONGEST_SECONDS: Final = 0.05
SLEEPS: Final = frozenset({"time.sleep", "asyncio.sleep"})
POLLS: Final = frozenset({"eventually", "within", "stays", "stays_async", "wait_until"})
ALLOWED: Final[dict[tuple[str, str], str]] = {
    (
        "unit/rollouts/fleet/worker/test_worker.py",
        "test_an_idle_worker_uses_less_than_five_percent_of_a_core",
    ): "it measures CPU time, which the kernel counts in steps of 10 ms, over two seconds",
    (
        "e2e/test_layout_shift.py",
        "test_a_page_does_not_shift_while_it_loads",
    ): "it observes that the page does not shift, for which there is no event",
    (
        "e2e/test_idle_budgets.py",
        "idle_traffic",
    ): "it measures the bytes per second of idle tabs",
    (
        "e2e/test_page_budgets.py",
        "test_memory_and_repaints_of_a_page_of_a_busy_run_are_bounded",
    ): "its interval is the rate of the pushes under which it measures memory",
    (
        "e2e/test_page_budgets.py",
        "test_twenty_live_charts_are_drawn_at_sixty_frames_a_second",
    ): "it measures frames once the page is idle",
    (
        "e2e/test_page_budgets.py",
        "test_the_heap_of_a_live_page_stays_flat",
    ): "its interval is the rate of the reports under which it measures memory",
    (
        "e2e/test_page_budgets.py",
        "test_a_hidden_tab_receives_few_bytes_of_a_busy_run",
    ): "its interval is the rate of the pushes under which it measures bytes per second",
    (
        "e2e/test_viewer_budgets.py",
        "test_a_live_run_page_costs_little",
    ): "its interval is the rate of the pushes under which it measures the page",
    (
        "e2e/test_paint_budgets.py",
        "test_a_change_is_painted_within_300_ms_on_200_pages",
    ): "its interval is the rate of the changes whose delays it measures",
}
"""Functions of test modules that may wait for a fixed time, with the reason."""
OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    paths = [path for folder in FOLDERS for path in sorted((TESTS / folder).rglob("*.py"))]
    return [path for path in paths if path != Path(__file__)]


def is_fixture(function: Function) -> bool:
    return any(ast.unparse(each).startswith("pytest.fixture") for each in function.decorator_list)


def functions_of(tree: ast.Module, *, is_test_module: bool) -> list[Function]:
    """Return the tests, the fixtures and, in test modules, the helpers; without methods."""
    found = [each for each in tree.body if isinstance(each, Function)]
    return [
        each
        for each in found
        if is_test_module or is_fixture(each) or each.name.startswith("test_")
    ]


def own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Return the calls in a function, without those of nested classes and functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from own_calls(child)


def value_of(node: ast.expr, constants: dict[str, float]) -> float | None:
    """Return the value of a constant expression of numbers; None for any other."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return constants.get(name)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            one, other = value_of(left, constants), value_of(right, constants)
            if one is None or other is None:
                return None
            return OPERATORS[type(sign)](one, other)
    return None


def constants_of(tree: ast.Module) -> dict[str, float]:
    constants: dict[str, float] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as given)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as given)
            ):
                value = value_of(given, constants)
                if value is not None:
                    constants[name] = value
    return constants


def is_fixed_wait(call: ast.Call, constants: dict[str, float]) -> bool:
    name = ast.unparse(call.func)
    if name.endswith(".wait_for_timeout"):
        return True
    waits = [call.args[0]] if name in SLEEPS and call.args else []
    if name.rpartition(".")[2] in POLLS:
        waits = [each.value for each in call.keywords if each.arg == "interval_seconds"]
    values = [value_of(wait, constants) for wait in waits]
    return any(value is not None and value > LONGEST_SECONDS for value in values)


def fixed_waits(source: str, *, is_test_module: bool) -> list[str]:
    """Return the names of the functions with a fixed wait, in their order."""
    tree = ast.parse(source)
    constants = constants_of(tree)
    return [
        function.name
        for function in functions_of(tree, is_test_module=is_test_module)
        if any(is_fixed_wait(call, constants) for call in own_calls(function))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_wait_has_a_condition(folder: str) -> None:
    found = [
        (path.relative_to(TESTS).as_posix(), name)
        for path in modules()
        if path.is_relative_to(TESTS / folder)
        for name in fixed_waits(path.read_text(), is_test_module=path.name.startswith("test_"))
    ]

    assert [place for place in found if place not in ALLOWED] == []
    mine = {place for place in ALLOWED if place[0].startswith(f"{folder}/")}
    assert mine <= set(found), "the table has places that no longer sleep"


EXAMPLE = """
import asyncio, time
from tests import waiting
LONG = 2 * 0.1

def test_short(): time.sleep(0.05)
def test_long(): time.sleep(0.06)
def test_named(): time.sleep(LONG + 1)
async def test_async(): await asyncio.sleep(1)
def test_page(page): page.wait_for_timeout(10)
def test_poll(): waiting.eventually(bool, interval_seconds=0.1)
def test_unknown(seconds): time.sleep(seconds)
def test_lambda(page): page.route(lambda: time.sleep(1))
def helper(): time.sleep(1)
def test_fake():
    def slow(): time.sleep(1)
    class Slow:
        def act(self): time.sleep(1)
@pytest.fixture(scope="module")
def settled(): time.sleep(1)
class Fake:
    def act(self): time.sleep(1)
"""


def test_fixed_waits_of_tests_helpers_and_fixtures_are_found() -> None:
    both = ["test_long", "test_named", "test_async", "test_page", "test_poll"]

    assert fixed_waits(EXAMPLE, is_test_module=True) == [*both, "helper", "settled"]
    assert fixed_waits(EXAMPLE, is_test_module=False) == [*both, "settled"]
