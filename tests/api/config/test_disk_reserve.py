"""Bulk data leaves a reserve on the disk, in which everything else goes on."""

import json
import subprocess
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.test import Client
from safetensors.numpy import save

from buffer import jobs
from buffer.archive.models import ArchiveJob
from buffer.items.models import TrajectoryGroup
from buffer.payloads.services.partitions import clear_current_segment
from rolldeck import wire
from runs.lifecycle.models import Run
from runs.lifecycle.services.refused_pushes import flush_refused_pushes
from tests.buffer_factories import body, fragment, group, push
from tests.factories import bearer, make_outside_run, make_run

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 1 << 20
TENSORS = save({"0@ids": np.zeros(2, np.float32)})
CALL = {
    "kind": "chat",
    "messages": [{"role": "user", "content": "hi"}],
    "prompt_tokens": [1, 2],
    "answers": [
        {
            "tokens": [3],
            "logprobs": [-0.5],
            "versions": [{"epoch": 0, "step": 0, "tokens": 1}],
            "message": {"role": "assistant", "content": "a"},
        }
    ],
}
MANIFEST = {
    "epoch": 1,
    "step": 0,
    "sha256": "0" * 64,
    "size_bytes": len(TENSORS),
    "tensors": [{"name": "0@ids", "dtype": "F32", "shape": [2]}],
}


class Server:
    """A server with a run of groups, `words`, and a fleet, `alpha`."""

    def __init__(self) -> None:
        self.client = Client()
        self.words, self.alpha = make_outside_run(), make_run(epoch=1)
        self.operator = bearer("admin")
        self.roles = {
            run.name: {role: bearer(role, run=run) for role in ("env", "worker", "trainer")}
            for run in (self.words, self.alpha)
        }

    def send(
        self,
        path: str,
        content: Any,
        *,
        role: str = "",
        media_type: str = "application/json",
        method: str = "post",
    ) -> Any:
        run = path.partition("/")[0]
        return getattr(self.client, method)(
            f"/api/v1/runs/{path}",
            data=content if isinstance(content, bytes) else body(content),
            content_type=media_type,
            headers=self.roles[run][role] if role else self.operator,
        )

    def push(self) -> Any:
        content = body(group(sequences=4))
        address = "/atropos/words/scored_data"
        return self.client.post(address, data=content, content_type="application/json")

    def publish(self) -> Any:
        form = {"manifest": json.dumps(MANIFEST), "weights": BytesIO(TENSORS)}
        address = "/api/v1/runs/alpha/weights"
        return self.client.post(address, form, headers=self.roles["alpha"]["trainer"])


@pytest.fixture
def server() -> Server:
    clear_current_segment()
    return Server()


Write = Callable[[Server], Any]
BULK: dict[str, Write] = {
    "a push of a stock environment": Server.push,
    "groups": lambda server: server.send("words/groups", [group()], role="env"),
    "fragments": lambda server: server.send(
        "alpha/fragments", push(fragment()), role="worker", media_type=wire.FRAGMENTS_TYPE
    ),
    "tensors": lambda server: server.send(
        "words/tensors",
        TENSORS,
        role="trainer",
        media_type="application/vnd.safetensors",
        method="put",
    ),
    "a captured call": lambda server: server.send(
        "words/captures/one/calls", CALL | {"key": uuid4().hex}, role="env"
    ),
    "weights": Server.publish,
    "a recording": lambda server: server.send("alpha/recordings", {}),
    "an archive": lambda server: server.send("words/archives", {}),
    "a restoration": lambda server: server.send("words/restorations", {"archive": archived()}),
}


def archived() -> int:
    return ArchiveJob.objects.get(verb="export").pk


@pytest.mark.parametrize("kind", BULK)
def test_bulk_data_is_refused_while_the_disk_is_nearly_full(
    server: Server, settings: Any, kind: str
) -> None:
    if kind == "a restoration":
        pytest.importorskip("pyarrow")
        server.send("words/archives", {})
        jobs.run_archive_jobs()
    before = BULK[kind](server)
    settings.ROLLDECK_MIN_FREE_DISK_BYTES = 1 << 60

    refused = BULK[kind](server)

    assert before.status_code != 507
    assert (refused.status_code, refused["Retry-After"]) == (507, "60"), refused.content
    assert f"at least {1 << 60} required" in refused.content.decode()


def test_an_archive_that_would_use_the_reserve_ends_without_a_file(
    server: Server, settings: Any
) -> None:
    server.push()
    server.client.get("/atropos/words/batch")
    TrajectoryGroup.objects.update(state="served")
    row = server.send("words/archives", {}).json()
    settings.ROLLDECK_MIN_FREE_DISK_BYTES = 1 << 60

    jobs.run_archive_jobs()

    job = ArchiveJob.objects.get(pk=row["id"])
    assert job.state == "failed"
    assert f"at least {1 << 60} required" in job.error
    assert not list(Path(settings.ROLLDECK_VAR, "archives").glob(f"*{job.pk}.parquet*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_refusals_are_recorded_and_pushes_continue_when_there_is_room(
    server: Server, settings: Any, small_disk: Path
) -> None:
    settings.ROLLDECK_VAR, settings.ROLLDECK_MIN_FREE_DISK_BYTES = small_disk, 16 * MIB
    settings.COUNT_REFUSED_PUSHES = True
    assert server.push().status_code == 200
    filler = small_disk / "filler"
    filler.write_bytes(bytes(40 * MIB))

    refused = server.push()
    served = server.client.get("/atropos/words/batch")
    metric = server.send(
        "words/metrics", {"samples": [{"name": "loss", "step": 1, "value": 1.0}]}, role="trainer"
    )
    flush_refused_pushes()
    filler.unlink()

    assert (refused.status_code, refused.json()["detail"].split()[0]) == (507, str(8 * MIB))
    assert served.json()["batch"]
    assert metric.status_code in {200, 201}, metric.content
    assert Run.objects.get(pk=server.words.pk).refused["disk_full"]["groups"] == 1
    assert server.push().status_code == 200
