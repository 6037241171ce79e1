"""Training traces of the real OpenEnv package reach a trainer as one group."""

import json
import subprocess
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.http import Call, Connection
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from rolldeck.training_traces import group_of_traces
from runs.lifecycle.models import RunKind
from tests.buffer_factories import REGISTRATION
from tests.factories import make_run, make_token

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.partner]

PYTHON = Path(__file__).resolve().parents[2] / ".partners" / "openenv" / "bin" / "python"


def test_traces_are_served_with_their_tokens_masks_and_logprobs(live_server: LiveServer) -> None:
    script = Path(__file__).with_name("training_traces.py")
    printed = subprocess.run([PYTHON, script], capture_output=True, text=True, check=True)
    run = make_run(name="demo", kind=RunKind.OUTSIDE)
    token = make_token("env", "trainer", run=run)[1]
    with Connection(live_server.url, token, retry_for_seconds=0) as connection:
        registration = REGISTRATION | {"batch_size": 2}
        connection.json(Call(method="POST", path="/atropos/demo/register", json=registration))
        sender = GroupSender("", "demo", connection=connection)

        receipt = sender.push_groups([group_of_traces(json.loads(printed.stdout), [1.0, 0.0])])
        batch = Trainer("", "demo", connection=connection).next_batch(wait_seconds=5)

    assert (receipt.received, receipt.dropped) == (1, {})
    assert batch is not None
    arrays = batch.padded()
    assert arrays["tokens"].tolist()[0] == [11, 12, 13, 14, 21, 15]
    assert arrays["masks"].tolist()[0] == [-100, -100, 13, 14, -100, 15]
    assert arrays["inference_logprobs"].tolist()[0] == [1, 1, -0.25, -0.25, 1, -0.25]
    assert arrays["tokens"].tolist()[1][:3] == [11, 12, 16]
    assert arrays["scores"].tolist() == [1.0, 0.0]
