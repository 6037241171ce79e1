"""Large payloads live in a bucket by setting; a moto server on loopback speaks S3's protocol."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.test import Client
from moto.server import ThreadedMotoServer

from buffer.batches.services import leases
from buffer.batches.services.leases import Lease
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.models import Payload
from buffer.payloads.rules import GRACE, MARKER, RetentionLimits
from buffer.payloads.services.contents import PayloadMissing, batch_contents, readable_contents
from buffer.payloads.services.partitions import (
    clear_current_segment,
    current_segment,
    make_partition,
    rotate_segment,
    seal,
)
from buffer.payloads.services.retention import apply_retention
from buffer.payloads.services.s3 import S3Payloads
from config.own_folders import ForeignFolder, bind_folders, claim_folders
from config.settings.connections import payload_storage  # noqa: TID251 as the settings do
from runs.deployment.models import Deployment
from runs.lifecycle.models import Run
from tests.buffer_factories import body, group
from tests.factories import NOON, make_outside_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(
    endpoint: str, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    resource = boto3.resource("s3", endpoint_url=endpoint, region_name="us-east-1")
    bucket = resource.Bucket("rolldeck-tests")
    bucket.create()
    url = f"s3://rolldeck-tests/server?endpoint={endpoint}&region=us-east-1"
    settings.STORAGES = settings.STORAGES | {"payloads": payload_storage(url, folder=tmp_path)}
    settings.ROLLDECK_INLINE_PAYLOAD_BYTES = 1_000
    clear_current_segment()
    yield bucket
    bucket.create()  # a test may have deleted it
    bucket.objects.delete()
    bucket.delete()
    clear_current_segment()


@pytest.fixture
def run(bucket: Any) -> Run:
    return make_outside_run()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]
)
def test_a_storage_that_stops_answering_ends_the_push(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    connections: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                connections.append(connection)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        storage = S3Payloads(
            silent_seconds=0.2,
            bucket_name="rolldeck-tests",
            endpoint_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
            region_name="us-east-1",
        )
        began = time.monotonic()
        with pytest.raises(OSError, match="endpoint URL"):
            storage.read_ranges("1/1", [(0, 9)])
        if not answer.endswith(b"ab"):  # a whole head is an answer to a write
            with pytest.raises(OSError, match="endpoint URL"):
                storage.write_parts("1/1", [b"x"])
    for connection in connections:
        connection.close()

    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("ranges", "requests"),
    [
        ([(0, 9)], 1),
        ([(7, 0)], 0),
        ([(5, 3), (0, 5), (8, 2)], 1),
        ([(2_000, 10), (0, 10), (1_000, 10)], 1),
        ([(0, 1_000), (100, 10), (1_000 + (1 << 20), 10)], 1),
        ([(0, 10), (11 + (1 << 20), 10)], 2),
        ([(0, 10), (5, 10), (2_500_000, 10), (2_999_990, 100)], 2),
    ],
    ids=["one", "empty", "unordered", "near", "nested", "far", "behind the end"],
)
def test_near_ranges_are_read_with_one_request(
    ranges: list[tuple[int, int]], requests: int, bucket: Any, endpoint: str
) -> None:
    content = bytes(number % 251 for number in range(3_000_000))
    storage = S3Payloads(
        bucket_name="rolldeck-tests", endpoint_url=endpoint, region_name="us-east-1"
    )
    storage.write_parts("1/1", [content])
    sent: list[object] = []
    storage._client.meta.events.register("before-call.s3.GetObject", lambda **_: sent.append(1))

    found = storage.read_ranges("1/1", ranges)

    assert found == [content[offset : offset + size] for offset, size in ranges]
    assert len(sent) == requests


def push(run: Run, *tokens: int) -> list[bytes]:
    groups = [decode_group(body(group(mark=m, tokens=t))) for m, t in enumerate(tokens)]
    accept_groups(run=run, groups=groups, producer="tests", now=NOON)
    return [content.content for content in groups]


def lease_for(run: Run) -> Lease:
    lease = leases.lease_batch(run_id=run.pk, identity="alice")
    assert lease is not None
    return lease


def read(lease: Lease) -> list[bytes]:
    contents = batch_contents(ItemKind.GROUPS, lease.batch.pk)
    return [bytes(content.content) for content in contents]


def keys(bucket: Any) -> list[str]:
    return sorted(stored_object.key for stored_object in bucket.objects.all())


def test_a_push_is_one_object_that_can_be_read_repeatedly(run: Run, bucket: Any) -> None:
    sent = push(run, 500, 900)
    lease = lease_for(run)

    assert keys(bucket) == [f"server/{TrajectoryGroup.objects.all()[0].object}"]
    assert read(lease) == sent
    assert read(lease_for(run)) == sent


def test_small_pushes_stay_in_the_database(run: Run, bucket: Any) -> None:
    sent = push(run, 3) + push(run, 900)

    assert len(keys(bucket)) == 1
    assert Payload.objects.count() == 1
    assert read(lease_for(run)) == sent


def test_a_part_of_an_object_is_read_alone(run: Run, bucket: Any) -> None:
    push(run, 900, 5_000, 900, 700, 700, 700)
    first, _, third, *_ = TrajectoryGroup.objects.order_by("id")

    contents = readable_contents(ItemKind.GROUPS, [first.pk, third.pk])

    assert [content.is_intact() for content in contents.values()] == [True, True]


def test_many_objects_are_read_for_one_batch(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(batch_size=48)
    sent = [push(run, 400 + mark)[0] for mark in range(24)]

    assert read(lease_for(Run.objects.get(pk=run.pk))) == sent


def test_a_missing_or_truncated_object_is_reported_with_its_item(run: Run, bucket: Any) -> None:
    push(run, 500, 900)
    first, second = TrajectoryGroup.objects.order_by("id")
    lease = lease_for(run)
    key = keys(bucket)[0]

    whole = bucket.Object(key).get()["Body"].read()
    bucket.Object(key).put(Body=whole[: second.offset + 5])
    with pytest.raises(PayloadMissing, match=f"item {second.pk} .*5 of {second.size_bytes}"):
        read(lease)
    bucket.Object(key).delete()
    with pytest.raises(PayloadMissing, match=f"item {first.pk} .*missing: the payload storage"):
        read(lease)


def test_retention_empties_the_prefix_of_a_segment_and_moves_open_items(
    run: Run, bucket: Any
) -> None:
    for _ in range(3):
        push(run, 900, 900)
        lease = lease_for(run)
        acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
    (left,) = push(run, 900)
    number = current_segment()
    rotate_segment(now=NOON - timedelta(days=9))
    seal(number, now=NOON)

    report = apply_retention(
        now=NOON + GRACE, limits=RetentionLimits(seconds=1, size_bytes=None, items=None)
    )

    assert (report.dropped, report.moved_items) == ([number], 1)
    assert [key.split("/")[:2] for key in keys(bucket)] == [["server", str(number + 1)]]
    moved = TrajectoryGroup.objects.get(state="queued")
    (content,) = readable_contents(ItemKind.GROUPS, [moved.pk]).values()
    assert content.content == left
    make_partition(1)


def test_an_unreachable_bucket_answers_with_retry_after_and_stores_nothing(
    run: Run, bucket: Any
) -> None:
    bucket.delete()
    client = Client()
    content = body([group(tokens=900)])

    response = client.post(
        "/atropos/words/scored_data_list", data=content, content_type="application/json"
    )

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert not TrajectoryGroup.objects.exists()


@pytest.fixture
def use(own_database: None, bucket: Any, endpoint: str, settings: Any, tmp_path: Path) -> Any:
    """Return a function that makes a prefix of the bucket that of this process."""
    settings.ROLLDECK_VAR, settings.MEDIA_ROOT = tmp_path, tmp_path / "media"

    def use(prefix: str) -> None:
        url = f"s3://rolldeck-tests/{prefix}?endpoint={endpoint}&region=us-east-1"
        settings.STORAGES = settings.STORAGES | {"payloads": payload_storage(url, folder=tmp_path)}

    return use


def test_a_prefix_of_another_deployment_is_refused_with_both_places(use: Any, bucket: Any) -> None:
    use("a")
    claim_folders(now=NOON)
    first = Deployment.objects.get()
    use("b")
    bind_folders(now=NOON)
    use("a")

    with pytest.raises(ForeignFolder) as refused:
        claim_folders(now=NOON)

    words = ("s3://rolldeck-tests/a", first.identity, "s3://rolldeck-tests/b", "bind_folders")
    assert [word for word in words if str(word) not in str(refused.value)] == []
    assert bucket.Object(f"a/{MARKER}").get()["Body"].read().decode() == str(first.identity)


def test_a_prefix_without_an_id_is_refused(use: Any, bucket: Any) -> None:
    use("a")
    claim_folders(now=NOON)
    bucket.Object(f"a/{MARKER}").delete()

    with pytest.raises(ForeignFolder, match="s3://rolldeck-tests/a has no deployment id"):
        claim_folders(now=NOON)


@pytest.mark.parametrize("holds_objects", [False, True])
def test_a_new_database_takes_a_used_prefix_only_without_objects(
    use: Any, bucket: Any, holds_objects: bool
) -> None:
    use("a")
    claim_folders(now=NOON)
    if holds_objects:
        bucket.put_object(Key="a/1/object", Body=b"data")
    Deployment.objects.all().delete()

    if holds_objects:
        with pytest.raises(ForeignFolder, match="but the database is new"):
            claim_folders(now=NOON)
        bind_folders(now=NOON)
    claim_folders(now=NOON)

    mark = bucket.Object(f"a/{MARKER}").get()["Body"].read().decode()
    assert mark == str(Deployment.objects.get().identity)


def test_a_bucket_that_is_down_leaves_the_deployment_unmarked(use: Any, bucket: Any) -> None:
    use("a")
    bucket.delete()

    with pytest.raises(OSError, match="NoSuchBucket"):
        claim_folders(now=NOON)

    assert not Deployment.objects.exists()
