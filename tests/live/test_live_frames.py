"""Every frame decodes completely as its Struct of the protocol."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from config.api_document import MESSAGES, TopicShape, topic_shapes
from rollouts.control.models import Fleet
from runs.deployment.schemas import SetNotice
from runs.deployment.services import set_notice
from runs.lifecycle.models import Run
from runs.live.rules import SERVER_TOPICS, frame_topic
from runs.live.schemas import ControlFrame, DeltaFrame, PageFrame, SnapshotFrame
from runs.live.services import CONTROL_PREFIX, Change, topic_named
from runs.search.schemas import LiveRunRow, RunActivity, RunRow
from tests.factories import NOON, make_run, make_user
from tests.sample_runs import sample_runs
from web.live.parts import ChangedPart

pytestmark = pytest.mark.django_db
NULL = ChangedPart(b"null", None)


def shape_of(topic: str) -> TopicShape:
    return topic_shapes()[topic.partition(":")[0]]


def decoded_completely(text: bytes, shape: Any) -> Any:
    """Decode `text` and check that no field was dropped."""
    frame = msgspec.json.decode(text, type=shape)
    assert msgspec.to_builtins(frame) == json.loads(text)
    return frame


def read(frame: str) -> tuple[SnapshotFrame | DeltaFrame, dict[str, Any], dict[str, list[Any]]]:
    """Decode a frame with its parts and rows as defined by the protocol."""
    decoded = msgspec.json.decode(frame, type=PageFrame)
    assert isinstance(decoded, SnapshotFrame | DeltaFrame)
    assert set(decoded.__struct_fields__) | {"type"} == set(json.loads(frame))
    shape = shape_of(decoded.topic)
    parts = {
        name: decoded_completely(bytes(raw), shape.parts[name])
        for name, raw in decoded.parts.items()
    }
    rows: dict[str, list[Any]] = {
        name: decoded_completely(msgspec.json.encode(raws), shape.series[name])
        for name, raws in decoded.series.items()
    }
    return decoded, parts, rows


def show_notice() -> None:
    wanted = SetNotice(text="the disk is changed at noon", reason="it is old", until=None)
    set_notice(body=wanted, actor="user:ada", now=NOON)


def test_every_topic_conforms_to_the_protocol() -> None:
    sample_runs.write(clock=lambda: datetime.now(UTC))
    runs = list(Run.objects.values_list("name", flat=True))
    reporting = make_run(name="reporting")
    Fleet.objects.create(
        run=reporting, observed="running", incarnation="a", actor_name="a", heard_at=NOON
    )
    show_notice()
    ada = make_user(username="ada", role="operator")
    server = ["runs", "alerts", "cluster", "cluster_admin", f"me:user:{ada.username}"]
    parts_seen: dict[str, set[str]] = {}
    rows_seen: dict[str, set[str]] = {}

    for name in [*server, *(f"run:{run}" for run in runs)]:
        topic = topic_named(name)
        change = topic.poll(None)
        assert change is not None
        late = topic.poll(topic.late)
        change.parts |= late.parts if late else {}
        change.sequence = topic.sequence
        snapshot, parts, rows = read(topic.snapshot(at=NOON))
        delta, *changed = read(topic.delta(change, previous=7, at=NOON))

        kind = name.partition(":")[0]
        actual = (snapshot.topic, snapshot.at, set(parts))
        assert actual == (frame_topic(name), NOON, set(shape_of(name).parts))
        assert isinstance(delta, DeltaFrame)
        assert (delta.previous, delta.sequence) == (7, snapshot.sequence)
        assert changed == [parts, {name: part for name, part in rows.items() if part}]
        parts_seen.setdefault(kind, set()).update(n for n, part in parts.items() if part)
        rows_seen.setdefault(kind, set()).update(n for n, part in rows.items() if part)

    assert set(topic_shapes()) == {"run", *SERVER_TOPICS}
    # Empty frames would pass as well.
    for kind, shape in topic_shapes().items():
        assert (kind, parts_seen[kind]) == (kind, set(shape.parts))
        assert (kind, rows_seen[kind]) == (kind, set(shape.series))
    for run in runs:
        topic = topic_named(f"{CONTROL_PREFIX}{run}")
        change = topic.poll(None)
        assert change is not None
        for frame in (topic.snapshot(at=NOON), topic.delta(change, previous=1, at=NOON)):
            decoded_completely(frame.encode(), ControlFrame)


def test_an_unknown_run_sends_no_control_frame() -> None:
    assert topic_named(f"{CONTROL_PREFIX}nobody").poll(None) is None


def test_every_part_has_a_declared_schema() -> None:
    shapes = [
        shape
        for topic in topic_shapes().values()
        for shape in (*topic.parts.values(), *topic.series.values())
    ]

    assert len(shapes) >= 10
    assert Any not in shapes
    msgspec.json.schema_components([*shapes, *MESSAGES.values()])


def test_a_run_of_the_live_list_has_its_activity() -> None:
    added = set(LiveRunRow.__struct_fields__) - set(RunRow.__struct_fields__)

    # Heartbeats are a part of their own, because they change every second.
    assert added == set(RunActivity.__struct_fields__) - {"observed_at"}


def test_a_frame_is_as_new_as_the_newest_of_its_parts_and_no_newer_than_itself() -> None:
    noon, topic = NOON.timestamp(), topic_named("run:alpha")
    commits = {"run": noon - 9, "queue": noon - 3, "fleet": noon - 1}
    change = Change(sequence=3, parts={"run": NULL, "queue": NULL}, commits=commits)
    assert change.committed_at == NOON - timedelta(seconds=3)
    hidden = change.for_hidden()
    assert hidden is not None
    assert hidden.committed_at == NOON - timedelta(seconds=9)

    change.commits = {"run": noon + 40}
    frame, *_ = read(topic.delta(change, previous=1, at=NOON))

    assert frame.committed_at == NOON


def test_a_hidden_page_receives_some_parts() -> None:
    change = Change(sequence=3, parts={"run": NULL, "queue": NULL})
    hidden = change.for_hidden()
    assert hidden is not None

    frame, parts, _ = read(topic_named("run:alpha").delta(hidden, previous=1, at=NOON))

    assert (frame.sequence, parts) == (3, {"run": None})
