"""A run whose configuration is invalid in many places is refused by each of them."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.lifecycle.models import Run
from tests.run_config_fields import leaves, wrong_values

pytestmark = pytest.mark.django_db


def fields_of(response: Any) -> list[str]:
    assert response["Content-Type"] == "application/problem+json"
    return [error["field"] for error in response.json()["errors"]]


@pytest.mark.parametrize("is_language", [False, True])
def test_a_run_with_every_field_wrong_is_refused_by_every_field(
    operator: APIClient, is_language: bool
) -> None:
    config = wrong_values(is_language=is_language)

    response = operator.post("/api/v1/runs", {"name": "a", "config": config}, format="json")

    assert response.status_code == 400
    paths = [field.partition("[")[0] for field in fields_of(response)]
    assert paths == [f"config.{path}" for path, _ in leaves(config)]
    assert response.json()["detail"] == f"{len(paths)} invalid fields"
    assert not Run.objects.exists()


def test_unknown_extensions_are_reported_with_invalid_values(
    operator: APIClient,
) -> None:
    config = {
        "environment": {
            "spec": "gymnasium:Nope-v1",
            "wrappers": [{"kind": "module:a:A"}, {"kind": "module:b:B"}],
        },
        "policy": {"kind": "transformer"},
        "fleet": {"weights_transport": "directory", "num_workers": 0},
        "language": {
            "inference": "nowhere",
            "lessons": {
                "one": {"spec": "task:nope"},
                "two": {"spec": "x:y"},
                "three": {"spec": "task:sort", "sampling": {"temperature": -1}},
            },
        },
    }

    response = operator.post("/api/v1/runs", {"name": "a", "config": config}, format="json")

    assert fields_of(response) == [
        "config.fleet.num_workers",
        "config.language.lessons.three.sampling.temperature",
        "config.environment.spec",
        "config.environment.wrappers[0].kind",
        "config.environment.wrappers[1].kind",
        "config.policy.kind",
        "config.fleet.weights_transport",
        "config.language.inference",
        "config.language.lessons.one.spec",
        "config.language.lessons.two.spec",
    ]
