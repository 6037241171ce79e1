"""Compare our server with atroposlib 0.4.0 on accepted and served bodies.

`record_atropos_shapes.py` recorded the original server.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.buffer_factories import REGISTRATION
from tests.contract.test_atropos_transcript import comparable, send_request

RECORDED = json.loads((Path(__file__).with_name("atropos_shapes_0_4_0.json")).read_text("utf-8"))


def refused(*place: str | int) -> Callable[[int, Any], bool]:
    """Return a check for a refusal that names the path of the problem."""

    def check(status: int, answer: Any) -> bool:
        return status == 422 and answer["detail"][0]["loc"] == ["body", *place]

    return check


# Bodies that the original server accepts although they would harm training: ours names the field.
REFUSED: dict[str, Callable[[int, Any], bool]] = {
    "group: some rows of inference_logprobs are empty": refused("inference_logprobs", 0),
    "group: fewer rows of ref_logprobs than sequences": refused("ref_logprobs"),
    "group: short rows of inference_logprobs": refused("inference_logprobs", 0),
    "group: masks are empty": refused("masks"),
    "group: scores are empty": refused("scores"),
    "group: masks shorter than tokens": refused("masks", 0),
    "group: a negative token id": refused("tokens", 0, 0),
    "group: env_id of no environment": refused("env_id"),
    "environment: a length of -1": refused("max_token_length"),
}
# Bodies that the original server fails on with 500: ours names the field.
FAILED: dict[str, Callable[[int, Any], bool]] = {
    "group: null among messages": refused("messages", 0),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", RECORDED)
def test_a_body_is_accepted_and_served_as_by_the_original_server(name: str) -> None:
    steps = RECORDED[name]
    for number, step in enumerate(steps):
        status, answer = send_request(step)

        place = f"step {number}: {step['method']} {step['path']}"
        known = REFUSED.get(name) or FAILED.get(name)
        if known is not None and number == pushed(name):
            assert known(status, answer), f"{place} answered {status} {answer}"
            break
        if step["status"] == 500:
            assert status < 500, f"{place} answered {status} {answer}"
            continue
        assert status == step["status"], f"{place} answered {status} {answer}"
        if status != 422:
            assert served(comparable(status, answer)) == comparable(status, step["answer"]), place


def pushed(name: str) -> int:
    """Return the step that sends the body of a case."""
    return 2 if name.startswith("environment") else 3


def served(answer: Any) -> Any:
    """Return a response without the fields that Atropos drops and our server keeps."""
    if isinstance(answer, dict) and answer.get("batch"):
        for group in answer["batch"]:
            for name in ("ground_truth", "metadata", "reward"):
                group.pop(name, None)
    return answer


def test_the_cases_name_recordings() -> None:
    assert REFUSED.keys() | FAILED.keys() <= RECORDED.keys()


@pytest.mark.django_db(transaction=True)
def test_an_environment_with_collect_trajectory_only_is_served_like_by_the_original_server() -> (
    None
):
    """`record_atropos_default.py` recorded an unmodified `BaseEnv` of the package."""
    *steps, last = json.loads((Path(__file__).with_name("atropos_default_0_4_0.json")).read_text())
    registration = REGISTRATION | {"batch_size": len(last["batch"]) * 4, "starting_step": 3}
    register = {"method": "POST", "path": "/register", "content": registration}
    assert send_request(register)[0] == 200
    # A trainer counts as started after its first request for a batch.
    batch = {"method": "GET", "path": "/batch", "content": None}
    assert send_request(batch) == (200, {"batch": None})

    for step in steps:
        status, answer = send_request(step)
        assert status == step["status"] == 200
        if step["path"] == "/scored_data":
            assert answer == step["answer"] == {"status": "received"}

    assert send_request(batch) == (200, {"batch": last["batch"]})
