"""The diagnosis of a run whose groups all have advantages of 0."""

from datetime import timedelta
from typing import Any

import pytest

from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.inspect.queries.group_statistics import FEWEST, groups_without_gradient
from buffer.inspect.services import digest_groups
from rollouts.diagnosis.queries.pipelines import diagnosis_of
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run
from tests.integration.rollouts.metrics.measured_series import at

pytestmark = pytest.mark.django_db(transaction=True)

ZERO = {"overrides": [{"set_advantage_to_zero": True}] * 2}


def push(run: Run, *groups: dict[str, Any], seconds: float = -5) -> None:
    decoded = [decode_group(body(one)) for one in groups]
    accept_groups(run=run, groups=decoded, producer="tests", now=at(seconds))
    digest_groups(now=NOON, seconds=60)


@pytest.fixture
def run() -> Run:
    return make_outside_run(name="flat", batch_size=8, status_changed_at=NOON - timedelta(hours=1))


@pytest.mark.parametrize(
    ("groups", "equal", "scores"),
    [
        ([group(scores=[0.0, 0.0])] * FEWEST, FEWEST, "0"),
        ([group(scores=[1.0, 1.0])] * 12 + [group(scores=[0.0, 0.0])] * 12, 24, "0 to 1"),
        ([group(scores=[0.0, 1.0], **ZERO)] * FEWEST, 0, "0.5"),
        ([group(scores=[0.0, 1.0], advantages=[[0.0], [0.0]])] * 30, 0, "0.5"),
    ],
)
def test_groups_that_cannot_teach_are_the_diagnosis(
    run: Run, groups: list[dict[str, Any]], equal: int, scores: str
) -> None:
    push(run, *groups)

    diagnosis = diagnosis_of(run.pk, now=NOON)

    assert (diagnosis.kind, diagnosis.stage) == ("no_gradient", "push")
    assert diagnosis.summary == (
        f"None of the newest {len(groups)} groups can teach: every advantage is 0, so their "
        "batches have no gradient."
    )
    assert diagnosis.evidence[:2] == [
        f"{equal} of them have equal scores within the group",
        f"their mean scores are {scores}",
    ]
    assert "finer reward" in diagnosis.change


@pytest.mark.parametrize(
    ("groups", "seconds"),
    [
        ([group(scores=[0.0, 0.0])] * (FEWEST - 1), -5),
        ([group(scores=[0.0, 1.0])] + [group(scores=[0.0, 0.0])] * 40, -5),
        ([group(scores=[0.0, 0.0], advantages=[[0.5], [-0.5]])] * 30, -5),
        ([group(scores=[0.0, 0.0])] * 30, -601),
    ],
)
def test_other_groups_are_not(run: Run, groups: list[dict[str, Any]], seconds: float) -> None:
    push(run, *groups, seconds=seconds)

    assert groups_without_gradient(run.pk, now=NOON) is None
    assert diagnosis_of(run.pk, now=NOON).kind != "no_gradient"


def test_one_group_with_a_gradient_ends_the_diagnosis(run: Run) -> None:
    push(run, *[group(scores=[0.0, 0.0])] * 30)
    assert groups_without_gradient(run.pk, now=NOON) is not None

    push(run, group(scores=[0.0, 1.0]))

    assert groups_without_gradient(run.pk, now=NOON) is None
