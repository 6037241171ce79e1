"""An unmodified Atropos environment generates with our server and pushes to us; a trainer reads.

The test replays the recorded requests and pushes of `atroposlib` 0.4.0's environment, see
`record_atropos_environment.py`.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from django.db import connection

from rollouts.fleet.engine.transformer import Transformer
from tests.buffer_factories import REGISTRATION
from tests.contract.tiny_inference import TinyInference, tiny_inference
from tests.live_server import serving
from tests.unit.rollouts.fleet.engine.small_models import logprobs

pytestmark = pytest.mark.django_db(transaction=True)

RECORDING = Path(__file__).with_name("atropos_env_0_4_0.json")
SECONDS = 240
GROUP = 8


@pytest.fixture
def inference(tmp_path: Path) -> Iterator[TinyInference]:
    with tiny_inference(tmp_path / "tiny") as served:
        yield served


@pytest.fixture
def server() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


def register(server: str) -> None:
    registration = REGISTRATION | {"batch_size": 2 * GROUP, "max_token_len": 64, "num_steps": 100}
    assert requests.post(f"{server}/register", json=registration, timeout=30).status_code == 200
    # A trainer counts as started after its first request for a batch.
    assert requests.get(f"{server}/batch", timeout=30).json() == {"batch": None}


def batch_of(server: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + SECONDS
    while True:
        groups: list[dict[str, Any]] | None = requests.get(f"{server}/batch", timeout=30).json()[
            "batch"
        ]
        if groups:
            return groups
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check(group: dict[str, Any], model: Transformer) -> None:
    """Check a group against the model that answered and against its messages."""
    assert {len(group[name]) for name in ("tokens", "masks", "scores", "messages")} == {GROUP}
    mean = sum(group["scores"]) / GROUP
    for row, tokens in enumerate(group["tokens"]):
        mask, behaviour_logprobs = group["masks"][row], group["inference_logprobs"][row]
        first = next(place for place, label in enumerate(mask) if label != -100)
        assert behaviour_logprobs[:first] == [1.0] * first
        assert mask[first:] == tokens[first:]
        expected = logprobs(model, tokens)
        drawn = [expected[at - 1, tokens[at]].item() for at in range(first, len(tokens))]
        assert behaviour_logprobs[first:] == pytest.approx(drawn, abs=1e-4)
        assert group["advantages"][row] == pytest.approx(
            [group["scores"][row] - mean] * len(tokens)
        )
        assert [message["role"] for message in group["messages"][row]] == ["user", "assistant"]


def test_requests_of_the_environment_to_the_inference_server_are_answered(
    inference: TinyInference,
) -> None:
    recorded = json.loads(RECORDING.read_text())
    for request in recorded["inference"]:
        answer = httpx.post(inference.url + request["path"], json=request["body"], timeout=60)
        assert answer.status_code == 200, answer.text
        if request["path"] != "/generate":
            continue
        answers = answer.json()
        assert len(answers) == request["body"]["sampling_params"]["n"]
        for one in answers:
            assert one["meta_info"]["finish_reason"]["type"] in {"stop", "length"}
            pairs = one["meta_info"]["output_token_logprobs"]
            assert [pair[1] for pair in pairs] == one["output_ids"]
            tokens = [*request["body"]["input_ids"], *one["output_ids"]]
            expected = logprobs(inference.model, tokens)
            first = len(request["body"]["input_ids"])
            drawn = [expected[at - 1, tokens[at]].item() for at in range(first, len(tokens))]
            assert [pair[0] for pair in pairs] == pytest.approx(drawn, abs=1e-4)


def test_groups_of_the_environment_are_served_unchanged(
    server: str, inference: TinyInference
) -> None:
    recorded = json.loads(RECORDING.read_text())
    register(server)
    groups = [group | {"env_id": None} for group in recorded["groups"][:2]]
    for group in groups:
        check(group, inference.model)
        assert group["distill_token_ids"][0][0] == [group["tokens"][0][0], 0]
        response = requests.post(f"{server}/scored_data", json=group, timeout=30)
        assert response.json() == {"status": "received"}

    batch = batch_of(server)

    assert [
        {name: stored[name] for name in sent} for stored, sent in zip(batch, groups, strict=True)
    ] == groups
