"""An unmodified Atropos environment: it generates at our server, pushes to us, a trainer reads.

The package brings half of the world, so it is not part of the development environment: with
ATROPOS_PYTHON naming a Python that has `atroposlib==0.4.0`, the real environment runs
(and ATROPOS_RECORD names a file to record it into); without, what it said is replayed.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from django.db import connection
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from examples import tiny_checkpoint
from rollouts.fleet.language import checkpoints
from rollouts.fleet.language.engine import Engine
from rollouts.fleet.language.openai_api import OpenAiApi
from rollouts.fleet.language.serving import EngineThread
from rollouts.fleet.language.sglang_api import SglangApi
from rollouts.fleet.language.tokenizers import load_tokenizer
from rollouts.fleet.language.transformer import Transformer
from tests.buffer_factories import REGISTRATION
from tests.live_server import serving
from tests.stand_ins.inference_servers import listening
from tests.unit.rollouts.fleet.language.small_models import logprobs

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
RECORDING = Path(__file__).with_name("atropos_env_0_4_0.json")
PYTHON = os.environ.get("ATROPOS_PYTHON", "")
SECONDS = 240
GROUP = 8


class Inference:
    """Our inference server, and what it was asked."""

    def __init__(self, url: str, model: Transformer, folder: Path) -> None:
        self.url, self.model, self.folder = url, model, folder
        self.heard: list[dict[str, Any]] = []


@pytest.fixture
def inference(tmp_path: Path) -> Iterator[Inference]:
    tiny_checkpoint.write(tmp_path / "tiny")
    model, tokenizer = checkpoints.load(tmp_path / "tiny"), load_tokenizer(tmp_path / "tiny")
    thread = EngineThread(Engine(model, rows=32, version=(1, 0)), context=128)
    api = OpenAiApi(thread, tokenizer=tokenizer, model="tiny", context=128)
    api.app.routes.extend(SglangApi(api, tokenizer).routes)
    served = Inference("", model, tmp_path / "tiny")

    async def note(request: Request, answer: RequestResponseEndpoint) -> Response:
        content = await request.body()
        if content:
            served.heard.append({"path": request.url.path, "body": json.loads(content)})
        return await answer(request)

    api.app.add_middleware(BaseHTTPMiddleware, dispatch=note)
    with listening(api.app) as served.url:
        yield served
    thread.close()


@pytest.fixture
def deck() -> Iterator[str]:
    with serving() as base:
        yield base
    connection.close()


def register(deck: str) -> None:
    registration = REGISTRATION | {"batch_size": 2 * GROUP, "max_token_len": 64, "num_steps": 100}
    assert requests.post(f"{deck}/register", json=registration, timeout=30).status_code == 200
    # A trainer has started once it has asked for a batch.
    assert requests.get(f"{deck}/batch", timeout=30).json() == {"batch": None}


def batch_of(deck: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + SECONDS
    while True:
        found: list[dict[str, Any]] | None = requests.get(f"{deck}/batch", timeout=30).json()[
            "batch"
        ]
        if found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def environment(deck: str, inference: Inference, groups: Path) -> Iterator[None]:
    command = [
        *(PYTHON, "examples/atropos_env.py", "serve"),
        *("--env.rollout_server_url", deck),
        *("--env.tokenizer_name", str(inference.folder)),
        *("--env.data_path_to_save_groups", str(groups)),
        *("--openai.base_url", f"{inference.url}/v1"),
        *("--openai.model_name", "tiny"),
        *("--openai.tokenizer_name", str(inference.folder)),
    ]
    log = groups.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from error
    finally:
        # It writes its groups down as it ends.
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def check(group: dict[str, Any], model: Transformer) -> None:
    """Hold a group against the model that answered and the messages that it came from."""
    assert {len(group[name]) for name in ("tokens", "masks", "scores", "messages")} == {GROUP}
    mean = sum(group["scores"]) / GROUP
    for row, tokens in enumerate(group["tokens"]):
        mask, found = group["masks"][row], group["inference_logprobs"][row]
        first = next(place for place, label in enumerate(mask) if label != -100)
        assert found[:first] == [1.0] * first
        assert mask[first:] == tokens[first:]
        expected = logprobs(model, tokens)
        drawn = [expected[at - 1, tokens[at]].item() for at in range(first, len(tokens))]
        assert found[first:] == pytest.approx(drawn, abs=1e-4)
        assert group["advantages"][row] == pytest.approx(
            [group["scores"][row] - mean] * len(tokens)
        )
        assert [said["role"] for said in group["messages"][row]] == ["user", "assistant"]


@pytest.mark.skipif(not PYTHON, reason="ATROPOS_PYTHON names no Python with atroposlib")
def test_the_real_environment_generates_here_and_its_groups_arrive_intact(
    deck: str, inference: Inference, tmp_path: Path
) -> None:
    register(deck)
    written = tmp_path / "groups.jsonl"

    with environment(deck, inference, written):
        batches = [batch_of(deck), batch_of(deck)]

    sent = [json.loads(line) for line in written.read_text().splitlines()]
    served = [group for batch in batches for group in batch]
    assert len(served) == 4
    for group in served:
        [original] = [one for one in sent if one["tokens"] == group["tokens"]]
        assert {name: group[name] for name in original} == original
        check(group, inference.model)
    if os.environ.get("ATROPOS_RECORD"):
        asked = [one for one in inference.heard if one["path"] == "/generate"][:4]
        probed = [one for one in inference.heard if one["path"] != "/generate"][:1]
        recorded = {"inference": [*probed, *asked], "groups": served}
        Path(os.environ["ATROPOS_RECORD"]).write_text(json.dumps(recorded, indent=1))


def test_what_it_asked_the_inference_server_is_answered_as_it_reads_it(
    inference: Inference,
) -> None:
    recorded = json.loads(RECORDING.read_text())
    for asked in recorded["inference"]:
        answer = httpx.post(inference.url + asked["path"], json=asked["body"], timeout=60)
        assert answer.status_code == 200, answer.text
        if asked["path"] != "/generate":
            continue
        answers = answer.json()
        assert len(answers) == asked["body"]["sampling_params"]["n"]
        for one in answers:
            assert one["meta_info"]["finish_reason"]["type"] in {"stop", "length"}
            pairs = one["meta_info"]["output_token_logprobs"]
            assert [pair[1] for pair in pairs] == one["output_ids"]
            tokens = [*asked["body"]["input_ids"], *one["output_ids"]]
            expected = logprobs(inference.model, tokens)
            first = len(asked["body"]["input_ids"])
            drawn = [expected[at - 1, tokens[at]].item() for at in range(first, len(tokens))]
            assert [pair[0] for pair in pairs] == pytest.approx(drawn, abs=1e-4)


def test_the_groups_that_it_pushed_come_back_as_they_were(deck: str, inference: Inference) -> None:
    recorded = json.loads(RECORDING.read_text())
    register(deck)
    distilled = {
        "distill_token_ids": [[[1, 2]] * len(row) for row in recorded["groups"][0]["tokens"]],
        "distill_logprobs": [[[-0.5, -1.5]] * len(row) for row in recorded["groups"][0]["tokens"]],
    }
    groups = [group | {"env_id": None} for group in recorded["groups"][:2]]
    groups[0] |= distilled
    for group in groups:
        check(group, inference.model)
        said = requests.post(f"{deck}/scored_data", json=group, timeout=30)
        assert said.json() == {"status": "received"}

    found = batch_of(deck)

    assert [
        {name: one[name] for name in sent} for one, sent in zip(found, groups, strict=True)
    ] == groups
