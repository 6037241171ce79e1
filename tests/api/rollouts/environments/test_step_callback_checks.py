"""Registered step callbacks take steps of a worker in a check; faulty ones are refused."""

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]
CALLBACKS = Path(__file__).parents[3] / "unit/rollouts/fleet"
ONE = "environment.step_callbacks[0]"


def callback(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"kind": f"module:own_callbacks:{name}", "kwargs": kwargs}


@pytest.fixture(autouse=True)
def _registered(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Lines", "Raising", "Narrow")
    kinds = [callback(name)["kind"] for name in names] + ["module:no_such_package:Callback"]
    settings.ROLLDECK_STEP_CALLBACKS = kinds
    monkeypatch.setenv("ROLLDECK_STEP_CALLBACKS", ",".join(kinds))
    monkeypatch.syspath_prepend(CALLBACKS)


def check(operator: APIClient, *callbacks: dict[str, Any], **config: Any) -> dict[str, Any]:
    body = {"config": {**config, "environment": {"step_callbacks": list(callbacks)}}}
    answer = operator.post("/api/v1/run-checks", body, format="json").json()
    [row] = [row for row in answer["findings"] if row["field"].startswith("environment")]
    return {"result": answer["result"], **row}


@pytest.mark.parametrize("policy", ["mlp", "gru"])
def test_a_check_calls_the_callback_for_every_step_of_a_worker(
    operator: APIClient, tmp_path: Path, policy: str
) -> None:
    lines = tmp_path / "lines"
    one = callback("Lines", file=str(lines))

    found = check(operator, one, policy={"kind": policy, "hidden_sizes": [8]})

    assert found["level"] == "ok", found
    steps = lines.read_text().splitlines()
    assert steps.pop() == "closed"
    assert len(steps) >= 128  # one fragment
    assert steps[0].startswith("w0-0@check ")


def test_the_schema_of_the_launch_form_lists_registered_names(operator: APIClient) -> None:
    schema = operator.get("/api/v1/run-config-schema").json()["schema"]

    fields = schema["$defs"]["EnvironmentConfig"]["properties"]
    choices = fields["step_callbacks"]["x-choices"]
    assert callback("Lines")["kind"] in choices
    assert not {one for one in fields["wrappers"]["x-choices"] if "own_callbacks" in one}


def test_a_run_may_use_a_registered_callback(operator: APIClient, tmp_path: Path) -> None:
    one = callback("Lines", file=str(tmp_path / "lines"))
    body = {"name": "alpha", "config": {"environment": {"step_callbacks": [one]}}}

    created = operator.post("/api/v1/runs", body, format="json")

    assert created.status_code == 201, created.content
    assert created.json()["config"]["environment"]["step_callbacks"] == [one]


@pytest.mark.parametrize(
    ("faulty", "field", "level", "message"),
    [
        (callback("Raising", at=5), ONE, "error", "raised ZeroDivisionError: no step"),
        (callback("Narrow"), ONE, "error", "got an unexpected keyword argument"),
        (callback("Lines"), ONE, "error", "missing 1 required keyword-only argument"),
        (callback("Other"), f"{ONE}.kind", "error", "is not registered"),
        (
            {"kind": "module:no_such_package:Callback"},
            ONE,
            "warning",
            "cannot be imported: ModuleNotFoundError",
        ),
    ],
)
def test_a_faulty_callback_is_reported_at_its_field(
    operator: APIClient, faulty: dict[str, Any], field: str, level: str, message: str
) -> None:
    found = check(operator, faulty)

    assert (found["field"], found["level"]) == (field, level)
    assert message in found["message"]


@pytest.mark.parametrize(
    ("callbacks", "field"),
    [
        ([callback("Other")], f"{ONE}.kind"),
        ([{"kind": ""}], f"{ONE}.kind"),
        ([callback("Lines")] * 17, "environment.step_callbacks"),
        ("Lines", "environment.step_callbacks"),
    ],
)
def test_an_invalid_list_is_refused(operator: APIClient, callbacks: Any, field: str) -> None:
    body = {"name": "alpha", "config": {"environment": {"step_callbacks": callbacks}}}
    refused = operator.post("/api/v1/runs", body, format="json")

    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == [f"config.{field}"]
