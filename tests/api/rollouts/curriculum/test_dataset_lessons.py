"""Lessons with a data set are checked as far as the server can read it."""

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from runs.config.rules import servers
from runs.lifecycle.models import Run
from tests.factories import bearer
from tests.lesson_factories import language
from tests.unit.rollouts.fleet.datasets.dataset_files import sums, write_jsonl, write_parquet

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]
BYTES = {"tokenizer": "bytes"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.ROLLDECK_DATASETS = str(tmp_path)
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    write_jsonl(tmp_path / "sums.jsonl", sums(20))
    write_parquet(tmp_path / "sums.parquet", sums(20))
    (tmp_path / "empty.jsonl").write_text("")
    return tmp_path


def config(spec: str = "dataset:sums.jsonl", **kwargs: Any) -> dict[str, Any]:
    return language({"a": {"spec": spec, "kwargs": kwargs}}, model=BYTES)


def create(body: dict[str, Any]) -> Any:
    request = {"name": "words", "config": body}
    return APIClient().post("/api/v1/runs", request, format="json", headers=bearer("admin"))


@pytest.mark.parametrize("name", ["sums.jsonl", "sums.parquet", "absent.jsonl", "more/absent"])
def test_a_run_may_name_a_data_set_of_this_or_another_machine(name: str) -> None:
    assert create(config(f"dataset:{name}")).status_code == 201
    assert Run.objects.filter(name="words").exists()


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        (config("dataset:../sums.jsonl"), "lessons.a.spec", "below ROLLDECK_DATASETS"),
        (config("dataset:empty.jsonl"), "lessons.a.spec", "empty.jsonl: contains no rows"),
        (config(prompt="question"), "lessons.a.kwargs.prompt", "columns: prompt, answer"),
        (
            config("dataset:sums.parquet", answer="solution"),
            "lessons.a.kwargs.answer",
            "no column 'solution'",
        ),
        (config(eval_split="test"), "lessons.a.kwargs.eval_split", "single file"),
        (config(promt="q"), "lessons.a.kwargs.promt", "unknown field"),
        (
            config(rewards=[{"kind": "exact", "weight": -1}]),
            "lessons.a.kwargs.rewards[0].weight",
            "> 0",
        ),
        (
            config(rewards=[{"kind": "module:lab:reward"}]),
            "lessons.a.kwargs.rewards[0].kind",
            "ROLLDECK_REWARDS",
        ),
        (
            config(rewards=[{"kind": "judge", "options": {"server": "big"}}]),
            "lessons.a.kwargs.rewards[0].options.server",
            "ROLLDECK_INFERENCE_SERVERS",
        ),
        (
            config(tools={"server": "calc"}),
            "lessons.a.kwargs.tools.server",
            "'calc' is not in ROLLDECK_TOOL_SERVERS; known: none",
        ),
        (
            language({"a": {"spec": "dataset:sums.jsonl"}}),
            "model.tokenizer",
            "lesson 'a' has a data set: use 'bytes'",
        ),
    ],
)
def test_an_invalid_lesson_is_refused_with_its_field(
    body: dict[str, Any], field: str, words: str
) -> None:
    answer = create(body)

    assert answer.status_code == 400
    problem = answer.json()["errors"][0]
    assert problem["field"] == f"config.language.{field}"
    assert words in problem["message"]
    assert not Run.objects.exists()


def test_registered_rewards_and_judges_are_accepted(settings: Any) -> None:
    settings.ROLLDECK_REWARDS = ["module:lab:reward"]
    settings.ROLLDECK_INFERENCE_SERVERS = servers.offered(
        '{"big": {"kind": "vllm", "url": "http://gpu:8000"}}'
    )
    rewards = [
        {"kind": "module:lab:reward", "options": {"most": 3}},
        {"kind": "judge", "options": {"server": "big"}},
    ]

    assert create(config(rewards=rewards)).status_code == 201


def checked(operator: APIClient, body: dict[str, Any]) -> tuple[str, str]:
    response = operator.post("/api/v1/run-checks", {"config": body}, format="json")
    assert response.status_code == 200, response.content
    field = "language.lessons.a.spec"
    [row] = [row for row in response.json()["findings"] if row["field"] == field]
    return row["level"], row["message"]


def test_the_check_before_launch_counts_the_rows(operator: APIClient, folder: Path) -> None:
    write_jsonl(folder / "mixed.jsonl", [*sums(20), {"question": "1"}])

    level, message = checked(operator, config("dataset:mixed.jsonl", eval_share=0.2))

    assert level == "ok"
    assert "16 rows for training, 4 for evaluation; 1 left out: mixed.jsonl, line 21" in message


def test_data_and_packages_of_other_machines_are_warnings(operator: APIClient) -> None:
    level, message = checked(operator, config("dataset:absent.jsonl"))
    assert level == "warning"
    assert "absent.jsonl does not exist below ROLLDECK_DATASETS on this machine" in message

    level, message = checked(operator, config(rewards=[{"kind": "math"}]))
    assert level == "warning"
    assert "pip install 'rolldeck-server[prompts]'" in message


def test_the_check_starts_no_tool_server(operator: APIClient, settings: Any) -> None:
    settings.ROLLDECK_TOOL_SERVERS = frozenset({"calc"})

    assert checked(operator, config(tools={"server": "calc"}))[0] == "ok"


def test_the_check_calls_no_judge(operator: APIClient, settings: Any) -> None:
    settings.ROLLDECK_INFERENCE_SERVERS = servers.offered(
        '{"big": {"kind": "vllm", "url": "http://127.0.0.1:9"}}'
    )
    judge = {"kind": "judge", "options": {"server": "big"}}

    assert checked(operator, config(rewards=[judge]))[0] == "ok"
    assert checked(operator, config(rewards=[{"kind": "exact"}, judge]))[0] == "ok"


def test_data_sets_of_this_machine_are_offered(operator: APIClient) -> None:
    answer = operator.get("/api/v1/environments", {"kind": "tokens", "limit": 50}).json()

    rows = {row["name"]: row["registered"] for row in answer["results"]}
    assert rows["dataset:sums.jsonl"] is True


def test_a_denied_data_set_is_refused(operator: APIClient) -> None:
    denial = {"spec": "dataset:sums.jsonl", "is_allowed": False, "reason": "leaked answers"}
    url = "/api/v1/environments/approvals"
    answer = APIClient().put(url, denial, format="json", headers=bearer("admin"))
    assert answer.status_code < 300, answer.content

    refused = create(config())

    assert refused.status_code == 400
    assert "leaked answers" in refused.json()["errors"][0]["message"]
