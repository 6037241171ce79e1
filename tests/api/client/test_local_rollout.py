"""The platform accepts the files of `rolldeck rollout` as they are."""

import json
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.cli import main
from rolldeck.fragment_files import read_fragments
from rolldeck.http import Call, Connection
from rolldeck.trainer import Trainer
from rolldeck.wire import FRAGMENTS_TYPE, encode
from rollouts.fleet.policies.networks import MlpPolicy
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {
    "policy": {"hidden_sizes": [8]},
    "fleet": {"envs_per_worker": 2, "inference_batch_size": 2, "fragment_length": 16},
    "buffer": {"batch_size": 4},
}


def test_a_pushed_file_becomes_a_batch_with_the_same_fragments(
    live_server: LiveServer, tmp_path: Path
) -> None:
    run = make_run(name="alpha", config=CONFIG)
    token = make_token("worker", "trainer", run=run)[1]
    given = ["--config", json.dumps(CONFIG), "--env-steps", "100", "--out", str(tmp_path)]
    assert main(["rollout", *given]) == 0
    [file] = tmp_path.glob("fragments-*.msgpack")

    with Trainer(live_server.url, "alpha", token) as trainer:
        trainer.register()
        trainer.publish_weights(MlpPolicy(4, 2, [8]).state_dict(), step=0)
        push = Call(
            method="POST",
            path="/api/v1/runs/alpha/fragments",
            content=file.read_bytes(),
            content_type=FRAGMENTS_TYPE,
        )
        with Connection(live_server.url, token, retry_for_seconds=0) as connection:
            receipt = connection.json(push)
        batch = trainer.next_batch(wait_seconds=5)

    sent = {
        view.fragment.slot + str(view.fragment.number): view for view in read_fragments(tmp_path)
    }
    assert receipt["accepted"] == len(sent) > 4
    assert receipt["dropped"] == {}
    assert batch is not None
    assert len(batch) == 4
    for view in batch.fragments:
        name = view.fragment.slot + str(view.fragment.number)
        assert encode(view.fragment) == encode(sent[name].fragment)
