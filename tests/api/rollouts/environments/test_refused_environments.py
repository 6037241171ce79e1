"""A check refuses every run of which the server would receive no fragment, and names the part."""

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]
ENVIRONMENTS = Path(__file__).parents[3] / "unit/rollouts/fleet"
NAMES = ("Plain", "vector", "WithText", "RaisesLate", "NotFinite", "HugeReward", "Large")
CASES: dict[str, tuple[str, str, str, str]] = {
    "vector": (
        "environment.spec",
        "module:awkward_environments:vector is a vector environment: name the single one, or",
        "Change the environment, or use a wrapper.",
        "mlp",
    ),
    "WithText": (
        "environment.spec",
        "module:awkward_environments:WithText: observation space, part inner.text: Text is not",
        "Change the environment, or use a wrapper.",
        "mlp",
    ),
    "RaisesLate": (
        "environment.spec",
        "could not be stepped: KeyError: 'goal'.",
        "Correct the environment, or convert the value with a wrapper.",
        "mlp",
    ),
    "NotFinite": (
        "environment.spec",
        "must be finite in float32",
        "Correct the environment, or convert the value with a wrapper.",
        "mlp",
    ),
    "HugeReward": (
        "environment.spec",
        "reward is 1e+39; it must be finite in float32.",
        "Correct the environment, or convert the value with a wrapper.",
        "mlp",
    ),
    "Plain": (
        "policy.kind",
        "cnn could not take a step: PolicyDoesNotFit: policy.kind: cnn needs images",
        "Choose another policy, or convert the observations with a wrapper.",
        "cnn",
    ),
    "Large": (
        "fleet.fragment_length",
        "A fragment of 64 steps takes 242 MB; the server accepts 33.6 MB (max_body_bytes).",
        "Lower fragment_length to",
        "mlp",
    ),
}


@pytest.fixture(autouse=True)
def _registered(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [f"module:awkward_environments:{name}" for name in NAMES]
    settings.ROLLDECK_ENVIRONMENTS = specs
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", ",".join(specs))
    # The probe's process has the import path of this one.
    monkeypatch.syspath_prepend(ENVIRONMENTS)


def check(operator: APIClient, name: str, *, policy: str) -> dict[str, Any]:
    config = {
        "environment": {"spec": f"module:awkward_environments:{name}"},
        "policy": {"kind": policy, "hidden_sizes": [8]},
        "fleet": {"fragment_length": 64},
    }
    answer = operator.post("/api/v1/run-checks", {"config": config}, format="json").json()
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("name", CASES)
def test_a_run_without_a_deliverable_fragment_is_refused(operator: APIClient, name: str) -> None:
    field, message, remedy, policy = CASES[name]

    answer = check(operator, name, policy=policy)

    errors = [row for row in answer["findings"] if row["level"] == "error"]
    assert answer["result"] == "refused"
    assert [row["field"] for row in errors] == [field]
    assert message in errors[0]["message"]
    assert errors[0]["remedy"].startswith(remedy)


def test_a_valid_run_has_a_fragment_within_the_limit(operator: APIClient) -> None:
    answer = check(operator, "Plain", policy="mlp")

    [fragment] = [row for row in answer["findings"] if row["field"] == "fleet.fragment_length"]
    assert fragment["level"] == "ok"
    assert "the server accepts 33.6 MB (max_body_bytes)." in fragment["message"]
    [policy] = [row for row in answer["findings"] if row["field"] == "policy.kind"]
    assert policy["level"] == "ok"
