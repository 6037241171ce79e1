"""Scores near the largest finite number, which groups may have: every view and statistic."""

import pytest

from rollouts.metrics.services.measuring import measure_run
from runs.lifecycle.models import Run
from tests.api.buffer.inspect.test_group_lists import Server, scored, user_messages
from tests.factories import NOON, make_token
from tests.integration.rollouts.metrics.measured_series import last

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = 1e308
CASES: dict[str, list[tuple[float, ...]]] = {
    "equal and large": [(LARGE, LARGE), (LARGE, LARGE)],
    "opposite in a group": [(LARGE, -LARGE), (-LARGE, LARGE)],
    "opposite groups": [(LARGE, LARGE), (-LARGE, -LARGE)],
    "the largest": [(1.7976931348623157e308,), (1.7976931348623157e308,)],
    "negative": [(-LARGE, -LARGE), (-LARGE, -LARGE)],
    "large squares": [(1e200, 1e200), (-1e200, -1e200), (0.0, 1.0)],
    "the smallest": [(5e-324, 5e-324), (0.0, 5e-324)],
    "mixed": [(0.0, 1.0), (LARGE, LARGE), (-1e155, -1e155)],
}
PATHS = (
    "trajectories?run=demo&sort=score&q=score>=-1",
    "trajectories/filter/values?of=env",
    "runs/demo/queue",
    "runs/demo/ledger",
    "runs/demo/pipeline",
    "runs/demo/bias",
    "environments",
    "trajectories?sort=-score",
    "runs?sort=return",
    "runs.csv",
)


@pytest.mark.parametrize("case", CASES)
def test_extreme_scores_are_shown_and_measured(case: str) -> None:
    server, run = Server(), Run.objects.get(name="demo")
    headers = {"Authorization": f"Bearer {make_token('env', 'trainer', 'read')[1]}"}
    groups = CASES[case]
    for scores in groups:
        server.push(scored(*scores, messages=user_messages("What?", "x")))
    server.digest()

    assert measure_run(run_id=run.pk, now=NOON)

    means = [sum(score / len(scores) for score in scores) for scores in groups]
    assert last(run)["reward/mean"] == pytest.approx(
        sum(mean / len(means) for mean in means), rel=0.01
    )
    for path in PATHS:
        answer = server.http.get(f"/api/v1/{path}", headers=headers)
        assert answer.status_code == 200, (path, answer.content[:300])
        if answer["Content-Type"] == "application/json":
            assert b"Infinity" not in answer.content
            assert b"NaN" not in answer.content
