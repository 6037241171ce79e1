"""Every named error that a request can raise has a row in the one table."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from config.api_errors import ERRORS

# Errors of these modules never leave the code that calls them.
CAUGHT_INSIDE = {
    "AddressNotPublic",
    "FromAnotherEpoch",
    "FromTheFuture",
    "InvalidInferenceServers",
    "InvalidWebhook",
    "MalformedCredentials",
    "NotDelivered",
    "NotStorable",
    "UnreadableRange",
}


def named_errors(*packages: str) -> Iterator[type[Exception]]:
    for package in packages:
        root = importlib.import_module(package)
        names = [package, *(m.name for m in pkgutil.walk_packages(root.__path__, f"{package}."))]
        for name in names:
            module = importlib.import_module(name)
            for _, kind in inspect.getmembers(module, inspect.isclass):
                if issubclass(kind, Exception) and kind.__module__ == name:
                    yield kind


def test_every_error_of_runs_is_in_the_table_or_caught_inside() -> None:
    found = named_errors("runs", "web")
    missing = {kind.__name__ for kind in found if kind not in ERRORS} - CAUGHT_INSIDE

    assert missing == set()


def test_the_table_names_each_code_with_one_status() -> None:
    statuses: dict[str, set[int]] = {}
    for error in ERRORS.values():
        statuses.setdefault(error.code, set()).add(error.status)

    assert {code for code, used in statuses.items() if len(used) > 1} == set()
