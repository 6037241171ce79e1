"""Registered wrappers are accepted and checked; a faulty one is refused at its field."""

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db
WRAPPERS = Path(__file__).parents[3] / "unit/rollouts/fleet"


def wrapper(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"kind": f"module:own_wrappers:{name}", "kwargs": kwargs}


@pytest.fixture(autouse=True)
def _registered(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Scaled", "FourValues", "fails")
    kinds = [wrapper(name)["kind"] for name in names] + ["module:no_such_package:Wrapper"]
    settings.ROLLDECK_ENVIRONMENT_WRAPPERS = kinds
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_WRAPPERS", ",".join(kinds))
    monkeypatch.syspath_prepend(WRAPPERS)


def check(operator: APIClient, *wrappers: dict[str, Any]) -> dict[str, Any]:
    body = {"config": {"environment": {"wrappers": list(wrappers)}}}
    answer = operator.post("/api/v1/run-checks", body, format="json").json()
    [row] = [row for row in answer["findings"] if row["field"].startswith("environment")]
    return {"result": answer["result"], **row}


def test_a_run_may_use_it_and_a_check_takes_a_step(operator: APIClient) -> None:
    config = {"environment": {"wrappers": [wrapper("Scaled", factor=2)]}}
    body = {"name": "alpha", "config": config}
    created = operator.post("/api/v1/runs", body, format="json")

    assert created.status_code == 201, created.content
    assert created.json()["config"]["environment"]["wrappers"] == [wrapper("Scaled", factor=2)]
    assert check(operator, wrapper("Scaled", factor=2))["level"] == "ok"


@pytest.mark.parametrize(
    ("faulty", "field", "level", "message"),
    [
        (wrapper("fails"), "environment.wrappers[1]", "error", "ZeroDivisionError: no wrapper"),
        (wrapper("FourValues"), "environment.wrappers", "error", "not enough values to unpack"),
        (
            {"kind": "module:no_such_package:Wrapper"},
            "environment.wrappers[1]",
            "warning",
            "ModuleNotFoundError",
        ),
        (wrapper("Other"), "environment.wrappers[1].kind", "error", "is not registered"),
    ],
)
def test_a_faulty_wrapper_is_reported_at_its_field(
    operator: APIClient, faulty: dict[str, Any], field: str, level: str, message: str
) -> None:
    found = check(operator, wrapper("Scaled"), faulty)

    assert (found["field"], found["level"]) == (field, level)
    assert message in found["message"]


@pytest.mark.parametrize(
    ("wrappers", "field"),
    [
        ([wrapper("Other")], "environment.wrappers[0].kind"),
        ([{"kind": ""}], "environment.wrappers[0].kind"),
        ([{"kwargs": {}}], "environment.wrappers[0]"),
        ([wrapper("Scaled")] * 17, "environment.wrappers"),
        ("Scaled", "environment.wrappers"),
    ],
)
def test_an_invalid_wrapper_is_refused(operator: APIClient, wrappers: Any, field: str) -> None:
    body = {"name": "alpha", "config": {"environment": {"wrappers": wrappers}}}
    refused = operator.post("/api/v1/runs", body, format="json")

    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == [f"config.{field}"]
