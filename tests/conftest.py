"""Start a separate PostgreSQL and Valkey for every test session.

They start while this file is imported: conftests and tests below may then import models. With
xdist, every worker is a separate session. All sessions of a run share its folder for temporary
files.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from config.embedded.parts import Valkey
from config.embedded.postgres import Postgres
from config.embedded.services import socket_folder
from tests.durations import DurationRecorder
from tests.initial_database import copy_database
from tests.property_budget import load_profile
from tests.ray_head import RAY_ENVIRONMENT
from tests.repeated_tests import OPTION, fail_first_try
from tests.run_folder import enter_run_folder
from tests.scheduling import SharedServers, check_items, leave, longest_first
from tests.suites import SUITE_OF_EXPRESSION, WITH_PROCESSES, is_left_out

OURS = ("ROLLDECK_", "DATABASE_URL", "REDIS_URL", "RAY_")


def start_services() -> contextlib.ExitStack:
    """Start both servers and set their addresses, without other variables of a deployment."""
    undo = contextlib.ExitStack()
    var = Path(tempfile.mkdtemp(prefix="rolldeck-test-"))
    undo.callback(shutil.rmtree, var, ignore_errors=True)
    sockets = socket_folder()
    undo.callback(shutil.rmtree, sockets, ignore_errors=True)
    copy_database(var / "postgres")
    postgres = Postgres(
        data_folder=var / "postgres",
        socket_folder=sockets,
        log_folder=var / "log",
        is_disposable=True,
    )
    valkey = Valkey(socket_folder=sockets, log_folder=var / "log")
    undo.callback(postgres.start().stop)
    undo.callback(valkey.start().stop)
    for name in [name for name in os.environ if name.startswith(OURS)]:
        if not name.startswith(("ROLLDECK_POSTGRES_BIN", "ROLLDECK_VALKEY_SERVER")):
            del os.environ[name]
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "ROLLDECK_VAR": str(var),
        "DATABASE_URL": postgres.url,
        "REDIS_URL": valkey.url,
        **RAY_ENVIRONMENT,
    }
    return undo


load_profile()
enter_run_folder()
SERVICES = start_services()
atexit.register(SERVICES.close)

import django  # noqa: E402 the settings need the servers' addresses

django.setup()

from tests.database import empty_quickly, own_database  # noqa: E402, F401 they need the settings
from tests.gateway import gateway  # noqa: E402, F401 likewise
from tests.local_clients import ask_for_loopback  # noqa: E402
from tests.ray_head import ray_head  # noqa: E402, F401 the fixture of every folder that uses Ray

ask_for_loopback()
empty_quickly()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Leave the database to the end of its server; a thread may still be connected to it."""
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Remove the settings module: with it, a worker would load ours before its own servers."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of our own tests."""
    parser.addoption(OPTION, action="store_true", help="run every test twice; needs --reruns 1")
    parser.addoption("--accept-snapshots", action="store_true", help="store the pages as they are")


def pytest_configure(config: pytest.Config) -> None:
    """Record the durations of a suite in the process that distributes its tests."""
    suite = SUITE_OF_EXPRESSION.get(config.option.markexpr)
    if (
        suite
        and getattr(config.option, "dist", "no") != "no"
        and not hasattr(config, "workerinput")
    ):
        config.pluginmanager.register(DurationRecorder(config, suite))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files out of `make test` that belong to other suites as a whole."""
    return is_left_out(collection_path, config.option.markexpr) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Fail the first try of each test if the option is given."""
    return fail_first_try(item, (yield))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Check ids and markers, sort the longest tests first, and mark those that may be rerun."""
    check_items(items)
    for item in items:
        if any(item.get_closest_marker(name) for name in WITH_PROCESSES):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))
    longest_first(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop a browser or a cluster that this test does not use."""
    leave(item)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedServers | None:
    """Return the scheduler that keeps tests of a shared server together."""
    return SharedServers(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the seed that repeats the order of the tests; the quiet header does not."""
    if (seed := config.getoption("randomly_seed", None)) is not None:
        terminalreporter.write_line(f"Order of the tests: --randomly-seed={seed}")


def pytest_unconfigure() -> None:
    """Stop both servers and remove their folder."""
    SERVICES.close()
