"""Registered wrappers are accepted and checked; a faulty one is refused at its field."""

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]
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


def test_a_run_may_use_a_wrapper_and_a_check_takes_a_step(operator: APIClient) -> None:
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
        (wrapper("FourValues"), "environment.wrappers", "error", "a tuple of 4 values"),
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
        ([{"kwargs": {}}], "environment.wrappers[0].kind"),
        ([wrapper("Scaled")] * 17, "environment.wrappers"),
        ("Scaled", "environment.wrappers"),
    ],
)
def test_an_invalid_wrapper_is_refused(operator: APIClient, wrappers: Any, field: str) -> None:
    body = {"name": "alpha", "config": {"environment": {"wrappers": wrappers}}}
    refused = operator.post("/api/v1/runs", body, format="json")

    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == [f"config.{field}"]


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("Changed", "environment.spec", "was constructed and stepped"),
        ("Short", "environment.callbacks[0]", "after_step must return a tuple of 5 values"),
        ("RaisesInStep", "environment.callbacks[0]", "raised ZeroDivisionError: no action"),
        ("Wide", "environment.callbacks", "obs has shape [5], its space [4]"),
        ("Other", "environment.callbacks[0].kind", "is not registered"),
    ],
)
def test_a_check_takes_a_step_with_environment_callbacks(
    operator: APIClient,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    field: str,
    message: str,
) -> None:
    names = ("Changed", "Short", "RaisesInStep", "Wide")
    settings.ROLLDECK_ENVIRONMENT_CALLBACKS = [f"module:own_callbacks:{one}" for one in names]
    monkeypatch.setenv(
        "ROLLDECK_ENVIRONMENT_CALLBACKS", ",".join(settings.ROLLDECK_ENVIRONMENT_CALLBACKS)
    )
    callbacks = [{"kind": f"module:own_callbacks:{name}"}]
    body = {"config": {"environment": {"wrappers": [wrapper("Scaled")], "callbacks": callbacks}}}

    findings = operator.post("/api/v1/run-checks", body, format="json").json()["findings"]

    [row] = [row for row in findings if row["field"].startswith("environment")]
    assert row["field"] == field
    assert message in row["message"]
