"""Every named error that a request can raise has a status, a code and a title."""

import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from config.errors import ErrorCode, error_codes
from web.rules.errors import ApiError

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/errors.md"
# Not in the web process, or started by their import.
ELSEWHERE = (
    "config.backups",
    "config.demo",
    "config.embedded",
    "config.management",
    "config.served",
    "config.settings",
    "rollouts.fleet",
)
# Errors of these modules never leave the code that calls them.
CAUGHT_INSIDE = {
    "BrokenFragment",
    "EpisodeFailed",
    "FromAnotherEpoch",
    "FromTheFuture",
    "InvalidInferenceServers",
    "InvalidTask",
    "InvalidToolServers",
    "InvalidWebhook",
    "ItemsMoved",
    "LaunchRefused",
    "MalformedCredentials",
    "NotDelivered",
    "NotStorable",
    "RemovalPostponed",
    "Retried",
    "TooFewChunks",
    "UnknownEnvironment",
    "UnknownEnvironmentId",
}
# The Atropos routes answer this error as FastAPI does.
OF_ATROPOS = {"InvalidBody"}


def named_errors(*packages: str) -> Iterator[type[Exception]]:
    """Yield the public error classes that the modules of `packages` define."""
    for package in packages:
        root = importlib.import_module(package)
        names = [package, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{package}."))]
        for name in names:
            if name.startswith(ELSEWHERE):
                continue
            module = importlib.import_module(name)
            for _, kind in inspect.getmembers(module, inspect.isclass):
                if issubclass(kind, Exception) and kind.__module__ == name:
                    yield kind


def loaded_codes() -> list[ErrorCode]:
    """Return the codes of all modules of the web process."""
    for _ in named_errors("web", "runs", "buffer", "rollouts", "config"):
        pass  # imports the modules
    return error_codes()


def test_every_error_is_an_api_error_or_caught_inside() -> None:
    errors = named_errors("web", "runs", "buffer", "rollouts")
    others = {kind.__name__ for kind in errors if not issubclass(kind, ApiError)}

    assert others == CAUGHT_INSIDE | OF_ATROPOS


def test_each_code_has_one_status() -> None:
    codes = Counter(row.code for row in loaded_codes())

    assert codes.total() > 60
    assert [code for code, statuses in codes.items() if statuses > 1] == []


def test_the_reference_lists_each_code_with_its_status_and_titles() -> None:
    rows = re.findall(r"(?m)^\| (\d{3}) \| `(\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"))

    assert rows == [(str(row.status), row.code, row.titles) for row in loaded_codes()]
