"""Compare our server's responses with those of atroposlib 0.4.0 to the same requests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

RECORDED = json.loads((Path(__file__).parent / "atropos_0_4_0.json").read_text(encoding="utf-8"))

# (story, step) → reason of a difference, and a check of our response.
DIFFERENCES: dict[tuple[str, int], tuple[str, Callable[[Any], bool]]] = {}


def differs(story: str, *steps: int, because: str) -> Callable[[Callable[[Any], bool]], None]:
    def remember(check: Callable[[Any], bool]) -> None:
        for step in steps:
            DIFFERENCES[story, step] = (because, check)

    return remember


def marks(answer: Any) -> list[int]:
    return [group["tokens"][0][0] for group in answer["batch"]]


differs("several batches at once", 3, because="batches are served oldest first")(
    lambda answer: marks(answer) == [0, 1]
)
differs("several batches at once", 4, because="a step is counted when its batch is served")(
    lambda answer: answer == {"current_step": 4, "queue_size": 4}
)
differs("several batches at once", 5, because="batches are served oldest first")(
    lambda answer: marks(answer) == [2, 3]
)
differs("several batches at once", 6, because="batches are served oldest first")(
    lambda answer: marks(answer) == [4, 5]
)
differs("leniencies", 7, because="unknown fields are kept, as everything else that was sent")(
    lambda answer: answer["batch"][0].pop("extra") == 7
)
differs("refusals", 2, because="group_size is optional, as in the older documentation")(
    lambda answer: (
        {p["loc"][1] for p in answer["detail"]} == {"desired_name", "max_token_length", "weight"}
    )
)
differs("refusals", 6, because="the path leads to the message, not to the whole field")(
    lambda answer: answer["detail"][0]["loc"] == ["body", "messages", 0, 0]
)
differs("reset", 5, because="a reset begins a fresh run, of which nothing is known")(
    lambda answer: answer == {"batch_size": -1, "max_token_len": -1}
)


def send_request(step: dict[str, Any]) -> tuple[int, Any]:
    content = step["content"]
    response = Client().generic(
        step["method"],
        step["path"],
        data=b"" if content is None else json.dumps(content).encode(),
        content_type="application/json",
    )
    raw = response.content
    try:
        return response.status_code, json.loads(raw)
    except ValueError:
        return response.status_code, raw.decode()


def comparable(status: int, answer: Any) -> Any:
    """Return the part that must be equal: no random numbers, no wording of errors."""
    if status == 422:
        return sorted({json.dumps(problem["loc"]) for problem in answer["detail"]})
    if isinstance(answer, dict) and "uuid" in answer:
        return {"uuid": "a number"} if isinstance(answer["uuid"], int) else answer
    if isinstance(answer, dict) and "error" in answer:
        return answer | {"error": "some text"}
    return answer


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("story", RECORDED)
def test_stock_clients_receive_the_recorded_answers(story: str) -> None:
    for number, step in enumerate(RECORDED[story]):
        status, answer = send_request(step)

        place = f"step {number}: {step['method']} {step['path']}"
        if (story, number) in DIFFERENCES:
            _, check = DIFFERENCES[story, number]
            assert check(answer), f"{place} answered {answer}"
            continue
        assert status == step["status"], f"{place} answered {answer}"
        assert comparable(status, answer) == comparable(status, step["answer"]), place
