"""Each test belongs to one suite, and a change selects the tests that it can reach."""

from pathlib import Path
from typing import Any

import pytest

from tests.changed import distances, module_of, named_modules, within_budget
from tests.scheduling import longest_first
from tests.suites import QUICK, SUITE_OF_EXPRESSION, is_left_out, suite_of

ROOT = Path(__file__).resolve().parents[2]


FULL, ALONE, PARTNER = pytest.mark.full, pytest.mark.alone, pytest.mark.partner


@pytest.mark.parametrize(
    ("marks", "suite"),
    [
        ([], "make test"),
        ([pytest.mark.ray, pytest.mark.django_db(transaction=True)], "make test"),
        ([FULL("starts a cluster")], "make test-full"),
        ([pytest.mark.release("installs wheels")], "make test-full"),
        ([ALONE("measures frames"), pytest.mark.browser], "make test-full"),
        ([PARTNER], "make test-partners"),
        ([pytest.mark.debian, pytest.mark.system], "make test-debian"),
    ],
)
def test_a_marker_assigns_a_test_to_one_suite(
    marks: list[pytest.MarkDecorator], suite: str
) -> None:
    assert suite_of(decorator.mark for decorator in marks) == suite


@pytest.mark.parametrize(
    ("marks", "problem"),
    [
        ([FULL], "the marker full needs its reason"),
        ([FULL("")], "the marker full needs its reason"),
        ([FULL(reason="as a keyword")], "the marker full needs its reason"),
        ([ALONE(3)], "the marker alone needs its reason"),
        ([PARTNER, FULL("both")], "it has the markers full, partner: choose one"),
        ([ALONE("a"), FULL("b")], "it has the markers alone, full: choose one"),
    ],
)
def test_a_marker_states_its_reason_and_excludes_others(
    marks: list[pytest.MarkDecorator], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        suite_of(decorator.mark for decorator in marks)


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        ('pytestmark = pytest.mark.full("a reason")\n', True),
        ('pytestmark = [pytest.mark.ray, pytest.mark.full("a reason")]\n', True),
        ('pytestmark = [\n    pytest.mark.ray,\n    pytest.mark.alone("a reason"),\n]\n', True),
        ("pytestmark = pytest.mark.partner\n", True),
        ("pytestmark = pytest.mark.ray\n", False),
        ('pytestmark = pytest.mark.ray\n\n@pytest.mark.full("one of them")\n', False),
        ('pytestmark = [pytest.mark.ray]\n\n@pytest.mark.full("one of them")\n', False),
        ("def test_it(): ...\n", False),
    ],
)
def test_whole_files_of_other_suites_are_not_imported(
    tmp_path: Path, source: str, left_out: bool
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(source)

    assert is_left_out(path, QUICK) is left_out
    assert is_left_out(path, "full") is False


def test_the_makefile_runs_each_suite_with_its_expression() -> None:
    makefile = (ROOT / "Makefile").read_text()

    assert f",{QUICK})\n" in makefile
    assert "FULL_TESTS := full\n" in makefile
    assert set(SUITE_OF_EXPRESSION) == {QUICK, "full"}


IMPORTS = {
    "tests.test_rules": {"buffer.rules"},
    "tests.test_views": {"tests.factories", "buffer.api"},
    "tests.factories": {"buffer.models"},
    "tests.test_other": {"runs.models"},
    "buffer.api": {"buffer.models"},
    "buffer.models": {"buffer.rules"},
}


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        (["buffer.rules"], {"tests.test_rules": 1, "tests.test_views": 3}),
        (["buffer.api"], {"tests.test_views": 1}),
        (["tests.factories"], {"tests.test_views": 1}),
        (["runs.models", "buffer.api"], {"tests.test_other": 1, "tests.test_views": 1}),
        (["frontend.pages"], {}),
        ([], {}),
    ],
)
def test_a_change_reaches_the_tests_whose_imports_lead_to_it(
    changed: list[str], reached: dict[str, int]
) -> None:
    found = distances(changed, IMPORTS)

    assert {name: far for name, far in found.items() if ".test_" in name} == reached


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import buffer.rules", {"buffer.rules"}),
        ("from buffer import rules", {"buffer", "buffer.rules"}),
        ('command = [python, "-m", "config.web", "0"]', {"config.web"}),
        ('monkeypatch.setattr("config.web.main", print)', {"config.web"}),
        ('call_command("backup", folder)', {"config.management.commands.backup"}),
        ('server.manage("archive")', {"buffer.management.commands.archive"}),
        ('name = "config.unknown"', set()),
        ("name = b'config.web'", set()),
    ],
)
def test_modules_are_named_by_imports_and_by_text(
    tmp_path: Path, source: str, modules: set[str]
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(source)
    commands = ("config.management.commands.backup", "buffer.management.commands.archive")

    assert set(named_modules(path, dict.fromkeys(("config.web", *commands), ()))) == modules


def test_the_nearest_and_quickest_tests_fit_into_the_budget() -> None:
    paths = {"far.py": 3, "near.py": 1, "near_and_long.py": 1, "middle.py": 2}
    seconds = {"far.py": 1.0, "near.py": 2.0, "near_and_long.py": 60.0, "middle.py": 3.0}

    assert within_budget(paths, seconds, 10.0) == ["near.py"]
    assert within_budget(paths, seconds, 64.0) == ["near.py", "near_and_long.py"]
    assert within_budget(paths, seconds, 66.0) == [
        "near.py",
        "near_and_long.py",
        "middle.py",
        "far.py",
    ]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("platform/web/rules/errors.py", "web.rules.errors"),
        ("client/rolldeck/__init__.py", "rolldeck"),
        ("buffer/items/rules/states.py", "buffer.items.rules.states"),
        ("tests/unit/conftest.py", "tests.unit.conftest"),
    ],
)
def test_a_path_has_the_name_of_its_imports(path: str, module: str) -> None:
    assert module_of(path) == module


class Item:
    """The parts of a collected test that the scheduler reads."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self._marks = nodeid, marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._marks else None


def test_the_longest_file_starts_first_and_markers_override_the_order_of_a_file() -> None:
    items: list[Any] = [
        Item("tests/unit/test_new.py::test_b", "last"),
        Item("tests/unit/test_new.py::test_a"),
        Item("tests/system/test_exactly_once.py::test_c"),
        Item("tests/system/test_exactly_once.py::test_d", "first"),
        Item("tests/unit/test_other.py::test_e"),
    ]

    longest_first(items)

    assert [item.nodeid[-1] for item in items] == ["d", "c", "a", "b", "e"]
