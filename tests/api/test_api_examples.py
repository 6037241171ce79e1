"""The examples of the OpenAPI document are requests that the API accepts, and its answers.

`WRITE_EXAMPLES=1 pytest tests/api/test_api_examples.py` writes the examples from the answers.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from config.api_document import EXAMPLES
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = json.loads((ROOT / "docs/reference/openapi.json").read_text())
OPERATIONS: Final = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
ROWS_KEPT: Final = 1
VALUES_KEPT: Final = 8
Kept = dict[str, Any]


class Step(NamedTuple):
    """One request of the scenario."""

    operation: str
    body: Any = None
    """Body, or a function of the values kept from earlier answers."""
    by: str = "user"
    query: Kept = {}
    keep: Callable[[Any], Kept] = lambda _: {}
    """Values of the answer for the paths and bodies of later requests."""


REASON: Final = {"reason": "the reward is being fixed"}
TOKENS: Final = [[1, 2, 3], [1, 2, 4]]
GROUP: Final = {
    "tokens": TOKENS,
    "masks": [[-100, 2, 3], [-100, 2, 4]],
    "scores": [1.0, 0.0],
    "inference_logprobs": [[1.0, -0.25, -0.5], [1.0, -0.25, -1.5]],
    "messages": [
        [{"role": "user", "content": "2 + 2 ="}, {"role": "assistant", "content": answer}]
        for answer in ("4", "5")
    ],
    "env_id": 0,
}
SAMPLES: Final = [{"name": "train/loss", "step": 3, "value": 0.125}]
RULE: Final = {
    "name": "The loss is high",
    "metric": "train/loss",
    "comparator": "above",
    "threshold": 5,
    "for_seconds": 600,
}
VIEW: Final = {"name": "Losses", "share": "all", "view": {"q": "loss", "x": "step"}}
SCENARIO: Final = [
    Step("session_create", {"username": "ada", "password": "ada"}, by="anyone"),
    Step("session_get"),
    Step("server_get"),
    Step("projects_create", {"name": "sums", "title": "Sums", "defaults": {"tags": ["math"]}}),
    Step("projects_list"),
    Step("projects_get"),
    Step("projects_update", {"description": "Addition of two numbers."}),
    Step("presets_list"),
    Step("runs_check", {"name": "cartpole-1", "preset": "cartpole", "fields_only": True}),
    Step("runs_create", {"name": "sums-1", "kind": "outside", "project": "sums", "start": True}),
    Step("runs_list", query={"q": "project:sums"}),
    Step("runs_get"),
    Step("runs_update", {"max_staleness": 4, **REASON}),
    Step("run_tags_replace", {"tags": ["math", "baseline"], **REASON}),
    Step("run_notes_replace", {"text": "Baseline before the new reward.", "revision": 0}),
    Step("run_notes_get"),
    Step(
        "tokens_create",
        {"name": "sums-1 trainer", "scopes": ["trainer", "env", "read"], "run": "sums-1"},
        keep=lambda answer: {"secret": answer["token"], "token": answer["id"]},
    ),
    Step("tokens_list"),
    Step("trainers_register", {"name": "trainer-0", "batch_size": 2}, by="trainer"),
    Step(
        "atropos_register_create",
        {
            "wandb_group": "sums",
            "wandb_project": "rolldeck",
            "batch_size": 2,
            "max_token_len": 64,
            "checkpoint_dir": "checkpoints",
            "save_checkpoint_interval": 10,
            "starting_step": 0,
            "num_steps": 100,
        },
        by="trainer",
    ),
    Step("atropos_batch_retrieve", by="trainer"),  # environments wait for it
    Step(
        "atropos_register_env_create",
        {"max_token_length": 64, "desired_name": "addition", "weight": 1.0, "group_size": 2},
        by="trainer",
    ),
    Step("run_environments_list"),
    Step("atropos_scored_data_create", GROUP, by="trainer"),
    Step("atropos_scored_data_list_create", [GROUP, GROUP], by="trainer"),
    Step("atropos_status_retrieve", by="trainer"),
    Step("queue_get"),
    Step("batches_preview"),
    Step(
        "batches_next",
        {"wait_seconds": 0},
        by="trainer",
        keep=lambda answer: {
            "batch": answer["batch"]["id"],
            "fence": answer["batch"]["fence"],
        },
    ),
    Step("batches_ack", lambda kept: {"fence": kept["fence"]}, by="trainer"),
    Step("atropos_batch_retrieve", by="trainer"),
    Step("batches_list"),
    Step(
        "batches_items",
        keep=lambda answer: {"group": answer["results"][0]["id"]},
    ),
    Step("groups_get"),
    Step("sequences_list"),
    Step("trajectories_list"),
    Step("followers_put", {"start": "earliest"}, by="trainer"),
    Step("followers_list"),
    Step("metrics_create", {"samples": SAMPLES}, by="trainer"),
    Step("metrics_list", query={"names": "train/loss"}),
    Step("metric_names"),
    Step("annotations_create", {"text": "Learning rate halved", "step": 3}),
    Step("annotations_list"),
    Step("alert_rules_create", RULE, by="admin"),
    Step("alerts_list"),
    Step("views_create", VIEW),
    Step("weights_list"),
    Step("ledger_get"),
    Step("pipeline_get"),
    Step("runs_pause", REASON),
    Step("runs_resume", REASON),
    Step("run_events_list"),
    Step("archives_create", {}, keep=lambda answer: {"archive": answer["id"]}),
    Step("archives_get"),
    Step("runs_stop", REASON),
    Step("runs_kill", REASON),
    Step("runs_act", {"action": "tag", "tag": "done", "q": "sums-1", **REASON}),
    Step("runs_preview_deletion"),
    Step("runs_delete", query={"reason": "a test of the reward"}),
    Step("deletions_list"),
]
PLACES: Final = {
    "project": "sums",
    "run": "sums-1",
    "follower": "replay",
}


class Scenario:
    """People and machines that play the scenario."""

    def __init__(self) -> None:
        self.kept: Kept = dict(PLACES)
        self.clients = {"anyone": APIClient(), "user": APIClient(), "admin": APIClient()}
        make_user(username="ada", role="admin")
        self.clients["user"].force_login(make_user(username="olga", role="operator"))
        self.clients["admin"].force_login(make_user(username="root", role="admin"))

    def headers(self, by: str) -> dict[str, str]:
        json_only = {"Accept": "application/json"}
        if by != "trainer":
            return json_only
        return {"Authorization": f"Bearer {self.kept['secret']}", **json_only}

    def play(self, step: Step) -> tuple[Any, str, Any]:
        """Send a request; return its body, and status and content of the answer."""
        method, path, _ = OPERATIONS[step.operation]
        client = self.clients.get(step.by) or APIClient()
        body = step.body(self.kept) if callable(step.body) else step.body
        answer = client.generic(
            method.upper(),
            path.format(**self.kept),
            json.dumps(body) if body is not None else "",
            "application/json",
            headers=self.headers(step.by),
            query_params=step.query,
        )
        assert answer.status_code < 300, (step.operation, answer.content)
        content = json.loads(answer.content) if answer.content else None
        self.kept |= step.keep(content)
        return body, str(answer.status_code), content


@pytest.fixture
def written() -> Iterator[Kept]:
    """Return the new examples, which are written on request."""
    examples: Kept = {}
    yield examples
    if os.environ.get("WRITE_EXAMPLES"):
        EXAMPLES.write_text(json.dumps(examples, indent=1, sort_keys=True) + "\n")


def fields(example: Kept) -> Kept:
    """Return the request, and the names of the answer's fields; values such as ids differ."""
    return {
        part: sorted(value) if isinstance(value, dict) else []
        for part, value in example.items()
        if part != "status"
    }


def shortened(content: Any) -> Any:
    """Return content with the first items of its lists, and without secrets."""
    if isinstance(content, list):
        longest = ROWS_KEPT if any(isinstance(part, dict) for part in content) else VALUES_KEPT
        return [shortened(part) for part in content[:longest]]
    if isinstance(content, dict):
        secret = {"token": "rd_0123456789abcdef"} if "prefix" in content else {}
        return {name: shortened(part) for name, part in (content | secret).items()}
    return content


def problems(schema: Any, content: Any) -> list[str]:
    validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return [error.message for error in validator.iter_errors(content)]


def schemas(operation: str, status: str) -> tuple[Any, Any]:
    """Return the schemas of a JSON request and of an answer."""
    described = OPERATIONS[operation][2]
    request = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    answer = described["responses"][status].get("content", {}).get("application/json", {})
    return request.get("schema"), answer.get("schema")


def test_the_scenario_is_accepted_and_answers_as_the_examples(written: Kept) -> None:
    scenario = Scenario()
    for step in SCENARIO:
        body, status, content = scenario.play(step)
        request, answer = schemas(step.operation, status)
        assert body is None or problems(request, body) == [], step.operation
        assert problems(answer, content) == [], step.operation
        written[step.operation] = {"status": status, "answer": shortened(content)}
        if body is not None:
            written[step.operation]["request"] = body

    stored = json.loads(EXAMPLES.read_text())
    assert {name: fields(example) for name, example in written.items()} == {
        name: fields(example) for name, example in stored.items()
    }


@pytest.mark.parametrize("operation", sorted(json.loads(EXAMPLES.read_text())))
def test_a_stored_example_fits_its_schemas_and_is_in_the_document(operation: str) -> None:
    example = json.loads(EXAMPLES.read_text())[operation]
    request, answer = schemas(operation, example["status"])
    described = OPERATIONS[operation][2]
    content = described["responses"][example["status"]]["content"]["application/json"]

    assert problems(answer, example["answer"]) == []
    assert content["examples"]["example"]["value"] == example["answer"]
    if "request" in example:
        assert problems(request, example["request"]) == []
        media = described["requestBody"]["content"]["application/json"]
        assert media["examples"]["example"]["value"] == example["request"]


def test_the_operations_that_people_use_have_examples() -> None:
    assert len(SCENARIO) >= 50
    assert {step.operation for step in SCENARIO} == json.loads(EXAMPLES.read_text()).keys()
