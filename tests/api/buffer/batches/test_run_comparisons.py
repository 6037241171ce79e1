"""Comparison of runs: shared prompts."""

from typing import Any

import pytest

from tests.api.buffer.inspect.test_group_lists import Server, scored, user_messages
from tests.buffer_factories import body
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)


class TwoRuns(Server):
    """A server with a second run; its token reads both."""

    def __init__(self) -> None:
        super().__init__()
        make_run(name="other", kind="outside", status="running")
        self.token = f"Bearer {make_token('env', 'trainer', 'read')[1]}"

    def push_to(self, run: str, *groups: dict[str, Any]) -> None:
        answer = self.http.post(
            f"/atropos/{run}/scored_data_list",
            data=body(list(groups)),
            content_type="application/json",
            headers={"Authorization": self.token},
        )
        assert answer.status_code == 200, answer.content

    def get_json(self, path: str) -> Any:
        answer = self.http.get(f"/api/v1/{path}", headers={"Authorization": self.token})
        assert answer.status_code == 200, answer.content
        return answer.json()["results"]


@pytest.fixture
def server() -> TwoRuns:
    return TwoRuns()


def test_shared_prompts_are_listed_first_with_the_scores_of_each_run(server: TwoRuns) -> None:
    both, alone = user_messages("What is 2 + 2?", "x"), user_messages("Only here", "x")
    server.push_to("demo", scored(0.0, 1.0, messages=both), scored(0.0, 0.5, messages=alone))
    server.push_to("demo", scored(1.0, 1.0, messages=both))
    server.push_to("other", scored(0.0, 0.0, messages=both))
    server.digest()

    first, second = server.get_json("prompts?runs=demo,other")

    assert first["excerpt"] == "What is 2 + 2?"
    scores = {run["run"]: (run["groups"], run["score_mean"]) for run in first["runs"]}
    assert scores == {"demo": (2, 0.75), "other": (1, 0.0)}
    assert [run["run"] for run in second["runs"]] == ["demo"]
    (there,) = [run["newest"] for run in first["runs"] if run["run"] == "other"]
    response = server.get_json(f"trajectories?run=other&q=prompt:{first['prompt']}")
    assert [row["id"] for row in response] == [str(there)]


@pytest.mark.parametrize("runs", ["", ",".join(f"r{n}" for n in range(21))])
def test_too_few_and_too_many_runs_are_refused(server: TwoRuns, runs: str) -> None:
    answer = server.http.get(
        f"/api/v1/prompts?runs={runs}", headers={"Authorization": server.token}
    )

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "runs"
