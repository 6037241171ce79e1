"""The groups of `rolldeck rollout` are pushed to a run, and reach its trainer unchanged."""

import json
from pathlib import Path

import numpy as np
import pytest
from pytest_django.live_server_helper import LiveServer

from rolldeck.cli import main
from rolldeck.group_encoding import to_json
from rolldeck.group_files import read_groups
from rolldeck.http import Call, Connection
from rolldeck.padding import padded
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from rolldeck.wire import GROUPS_TYPE
from runs.lifecycle.models import RunKind
from tests.factories import make_run, make_token
from tests.unit.rollouts.fleet.groups.small_checkpoints import LESSONS, make_checkpoint

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {"language": {"lessons": LESSONS, "group_size": 4}}


@pytest.mark.parametrize("by", ["sender", "file"])
def test_pushed_groups_are_the_batch_that_a_trainer_reads_from_the_folder(
    live_server: LiveServer, tmp_path: Path, by: str
) -> None:
    checkpoint, folder = make_checkpoint(tmp_path / "small"), tmp_path / "rollouts"
    given = ["--config", json.dumps(CONFIG), "--checkpoint", str(checkpoint)]
    assert main(["rollout", *given, "--groups", "6", "--out", str(folder)]) == 0
    run = make_run(name="demo", kind=RunKind.OUTSIDE)
    token = make_token("env", "trainer", run=run)[1]

    with Trainer(live_server.url, "demo", token) as trainer:
        trainer.register(batch_size=24)
        if by == "sender":
            with GroupSender(live_server.url, "demo", token) as sender:
                receipt = sender.push_groups([*read_groups(folder)])
                assert (receipt.received, receipt.dropped) == (6, {})
        else:
            [file] = folder.iterdir()
            path = "/api/v1/runs/demo/groups"
            push = Call(
                method="POST", path=path, content=file.read_bytes(), content_type=GROUPS_TYPE
            )
            with Connection(live_server.url, token, retry_for_seconds=0) as connection:
                assert connection.json(push)["received"] == 6
        batch = trainer.next_batch(wait_seconds=5)

    groups = list(read_groups(folder))
    assert batch is not None
    served = [to_json(one) for one in batch.group_arrays]
    assert sorted(served) == sorted(map(to_json, groups))
    order = [served.index(to_json(one)) for one in groups]
    offline, online = padded(groups), padded([batch.group_arrays[place] for place in order])
    assert offline["tokens"].shape[0] == 24
    for name, values in online.items():
        np.testing.assert_array_equal(offline[name], values)
