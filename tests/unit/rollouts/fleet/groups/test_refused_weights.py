"""An inference server that refuses a version delays it without further effects."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolldeck.wire import FleetEvent
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.tokenizers import ByteTokenizer
from rollouts.fleet.groups.language_policy import ServedPolicy
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.inference.shared_folder import MARKER
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.weights.loader import WeightsLoader
from rollouts.fleet.weights.records import WeightsRecord
from runs.config.rules.servers import InferenceServerSettings
from tests.stand_ins.inference_servers import listening
from tests.stand_ins.vllm_server import VllmStandIn
from tests.unit.rollouts.fleet.engine.small_models import small_model
from tests.unit.rollouts.fleet.groups.language_platform import language_fleet, language_run
from tests.waiting import eventually


class Moody(VllmStandIn):
    """Server that refuses weights for a while."""

    says_no = False
    dies_of_weights = False
    device = "cuda"

    def load(self) -> str:
        """Read the folder, unless the server refuses."""
        return "CUDA error: out of memory" if self.says_no else super().load()

    @property
    def tries(self) -> int:
        """Number of requests to read the folder."""
        return self.calls.count("/collective_rpc reload_weights")


class Served:
    """A server, the weights loader of its worker, and a thread that runs the loader."""

    def __init__(self, folder: Path) -> None:
        self.stand_in = Moody(folder, small_model(seed=0), ByteTokenizer())
        self.events = EventLog()
        self.received: list[FleetEvent] = []

    def connect(self, url: str, folder: Path, *, control: list[str] | None = None) -> None:
        settings = InferenceServerSettings(
            kind="vllm",
            url=url,
            control=control or [],
            model="small",
            weights_directory=str(folder),
        )
        self.server = HttpInferenceServer(settings)
        policy = ServedPolicy(self.server, ByteTokenizer(), 256)
        self.loader = WeightsLoader(self.events, announce_ready=self.adopt)
        self.loader.serve(policy, draw_with=policy.draw_with)
        self._ends = threading.Event()
        self._turning = threading.Thread(target=self._turn)
        self._turning.start()

    def adopt(self) -> None:
        self.loader.adopt()

    def publish(self, step: int) -> None:
        tensors = {name: value.numpy() for name, value in named_tensors(small_model(seed=step))}
        self.loader.offer(WeightsRecord(epoch=1, step=step, tensors=tensors))

    def refusals(self) -> list[FleetEvent]:
        self.received += self.events.pop()
        return [event for event in self.received if event.kind == "weights_refused"]

    def close(self) -> None:
        self._ends.set()
        self.loader.close()
        self._turning.join(30)
        self.server.close()

    def _turn(self) -> None:
        while not self._ends.is_set():
            self.loader.turn()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    with listening(made.stand_in.app()) as url:
        made.connect(url, tmp_path)
        yield made
        made.close()
    made.stand_in.thread.close()


def test_a_refused_version_is_reported_once_and_retried(served: Served) -> None:
    served.publish(1)
    eventually(lambda: served.loader.active == (1, 1), 60.0)
    served.stand_in.says_no = True
    before = served.stand_in.tries
    served.publish(2)
    eventually(lambda: served.stand_in.tries >= before + 2, 60.0)

    assert served.loader.active == served.server.version == (1, 1)
    assert "version 2 were not taken" in served.loader.refusal
    assert "out of memory" in served.loader.refusal

    served.stand_in.says_no = False
    eventually(lambda: served.loader.active == (1, 2), 60.0)
    assert served.server.version == (1, 2)
    assert served.loader.refusal == ""
    [event] = served.refusals()
    assert (event.level, event.details["version"]) == ("warning", [1, 2])
    states = served.loader.transfers
    assert (states.adopted, states.refused, states.superseded) == (2, 0, 0)


def test_a_version_that_one_replica_lacks_is_in_use_reported_and_retried(tmp_path: Path) -> None:
    served = Served(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with listening(served.stand_in.app()) as url:
        served.connect(url, tmp_path, control=[url, f"http://127.0.0.1:{port}"])
        served.publish(1)
        eventually(lambda: served.loader.active == (1, 1), 60.0)

        assert f"1 of 2 replicas cannot be reached: http://127.0.0.1:{port}: " in (
            served.loader.refusal
        )
        eventually(lambda: served.refusals(), 60.0)
        [event] = served.refusals()
        assert event.details["version"] == [1, 1]
        with listening(served.stand_in.app(), port=port):
            eventually(lambda: served.loader.refusal == "", 60.0)
        assert served.loader.active == (1, 1)
        assert served.loader.transfers.adopted == 1
        served.close()
    served.stand_in.thread.close()


def test_weights_of_another_run_are_refused_until_their_marker_is_deleted(
    served: Served, tmp_path: Path
) -> None:
    marker = tmp_path / MARKER
    marker.write_text('{"run": "words-20260101T000000", "epoch": 1, "step": 6}')

    served.publish(0)
    eventually(lambda: served.refusals(), 60.0)

    assert served.loader.active is None
    assert served.stand_in.tries == 0
    [event] = served.refusals()
    assert "version 1/6 of run 'words-20260101T000000'" in event.message
    assert event.message.removeprefix("T") == served.loader.refusal.removeprefix("t")

    marker.unlink()
    eventually(lambda: served.loader.active == (1, 0), 60.0)


def test_the_active_version_is_the_servers(served: Served) -> None:
    served.publish(3)
    eventually(lambda: served.loader.active == (1, 3), 60.0)
    late = ServedPolicy(served.server, ByteTokenizer(), 256)
    late.adopt({name: value.numpy() for name, value in named_tensors(small_model(seed=2))})

    assert late.draw_with((1, 2)) == (1, 3)


def test_a_newer_version_does_not_wait_for_a_refused_one(served: Served) -> None:
    served.stand_in.says_no = True
    served.publish(1)
    eventually(lambda: served.refusals(), 60.0)
    assert served.loader.active is None

    served.stand_in.says_no = False
    served.publish(2)
    eventually(lambda: served.loader.active == (1, 2), 60.0)

    assert served.loader.transfers.adopted == 1
    assert served.server.version == (1, 2)


def test_a_fleet_reports_the_active_version_until_its_server_loads_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons = {"reverse": {"spec": "task:reverse", "kwargs": {"length": 2}}}
    config = language_run(lessons, inference="moody")
    assert config.language is not None
    built = build(config.language)
    stand_in = Moody(tmp_path, built.model, built.tokenizer)
    with listening(stand_in.app()) as server:
        offered = {
            "kind": "vllm",
            "url": server,
            "model": "small",
            "weights_directory": str(tmp_path),
        }
        monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps({"moody": offered}))
        with language_fleet(config, tmp_path) as platform:
            platform.publish_weights(0)
            eventually(lambda: platform.groups, 60.0)
            stand_in.says_no = True
            platform.publish_weights(1)
            eventually(lambda: "weights_refused" in platform.events(), 60.0)
            eventually(lambda: "not taken" in platform.reports[-1].workers[0].reason, 60.0)
            worker = platform.reports[-1].workers[0]
            assert (worker.state, worker.active_step, worker.staged_step) == ("running", 0, 1)
            stand_in.says_no = False
            eventually(lambda: platform.reports[-1].workers[0].active_step == 1, 90.0)
            eventually(lambda: any(group.policy_step == 1 for group in platform.groups), 60.0)
    stand_in.thread.close()

    assert "loop_crashed" not in platform.events()
    assert list(platform.events()).count("weights_refused") == 1
