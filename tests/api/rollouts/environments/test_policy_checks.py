"""A registered policy is listed, accepted and checked; a faulty one is refused at its field."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from rollouts.environments.services import run_checks
from rollouts.fleet.gateway import probes
from rollouts.fleet.probe.messages import Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]
NETWORKS = Path(__file__).parents[3] / "unit/rollouts/fleet"
NAMES = ("Plain", "WrongOutputs", "Raises", "RaisesInStep", "no_module")


def kind(name: str) -> str:
    return f"module:own_networks:{name}"


@pytest.fixture(autouse=True)
def _registered(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ROLLDECK_POLICIES = [*map(kind, NAMES), "module:no_such_package:Policy"]
    monkeypatch.setenv("ROLLDECK_POLICIES", ",".join(settings.ROLLDECK_POLICIES))
    # The probe's process has the import path of this one.
    monkeypatch.syspath_prepend(NETWORKS)


def check(operator: APIClient, **policy: Any) -> dict[str, Any]:
    body = {"config": {"policy": policy}}
    answer = operator.post("/api/v1/run-checks", body, format="json").json()
    [row] = [row for row in answer["findings"] if row["field"].startswith("policy")]
    return {"result": answer["result"], **row}


def test_the_launch_form_lists_a_registered_policy_and_a_run_may_use_it(
    operator: APIClient,
) -> None:
    schema = operator.get("/api/v1/run-config-schema").json()["schema"]
    body = {"name": "alpha", "config": {"policy": {"kind": kind("Plain"), "kwargs": {"bias": 0}}}}
    created = operator.post("/api/v1/runs", body, format="json")

    choices = schema["$defs"]["PolicyConfig"]["properties"]["kind"]["enum"]
    assert choices[:3] == ["mlp", "cnn", "gru"]
    assert kind("Plain") in choices
    assert created.status_code == 201, created.content
    assert created.json()["config"]["policy"]["kind"] == kind("Plain")


def test_a_check_takes_a_step_with_the_policy(operator: APIClient) -> None:
    check_result = check(operator, kind=kind("Plain"))

    assert check_result["level"] == "ok"
    assert check_result["message"] == f"{kind('Plain')} took a step; it has 10 parameters."


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("WrongOutputs", "outputs has the shape [2, 3], expected [2, 2]"),
        ("Raises", "raised ZeroDivisionError: no network"),
        ("RaisesInStep", "ZeroDivisionError: no step"),
        ("no_module", "returned str, expected a torch.nn.Module"),
    ],
)
def test_a_faulty_policy_is_an_error(operator: APIClient, name: str, problem: str) -> None:
    check_result = check(operator, kind=kind(name))

    assert (check_result["result"], check_result["level"], check_result["field"]) == (
        "refused",
        "error",
        "policy.kind",
    )
    assert problem in check_result["message"]


def test_a_policy_that_hangs_is_refused_at_its_field_after_the_limit(
    operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that hangs where the probe calls the policy; importing torch may take longer.
    outcome = msgspec.json.encode(Outcome(observation="float32 [4]", stage="policy")).decode()
    hang = f"import time; print({outcome!r}, flush=True); time.sleep(3600)"
    monkeypatch.setattr(probes, "PROBE_COMMAND", (sys.executable, "-S", "-c", hang))
    monkeypatch.setattr(run_checks, "WORKER_SECONDS", 1.5)

    found = check(operator, kind=kind("Plain"))

    assert (found["result"], found["level"], found["field"]) == ("refused", "error", "policy.kind")
    assert "it did not finish within 1.5 s" in found["message"]


def test_a_package_that_only_the_fleet_needs_is_a_warning(operator: APIClient) -> None:
    check_result = check(operator, kind="module:no_such_package:Policy")

    assert check_result["level"] == "warning"
    assert "ModuleNotFoundError" in check_result["message"]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"kind": kind("Other")}, "policy.kind"),
        ({"kind": "package:absent"}, "policy.kind"),
        ({"kind": "mlp", "kwargs": {"units": 8}}, "policy.kwargs"),
        ({"kind": ""}, "policy.kind"),
        ({"kind": "m" * 201}, "policy.kind"),
    ],
)
def test_a_policy_that_is_not_registered_is_refused(
    operator: APIClient, policy: dict[str, Any], field: str
) -> None:
    body = {"name": "alpha", "config": {"policy": policy}}
    refused = operator.post("/api/v1/runs", body, format="json")

    assert refused.status_code == 400
    assert [error["field"] for error in refused.json()["errors"]] == [f"config.{field}"]
    assert check(operator, **policy)["field"] == field
