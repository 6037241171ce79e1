"""Minimal platform that implements the fleet's API over real HTTP."""

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from rolldeck import safetensors
from rolldeck.operator_requests import (
    CordonCommand,
    LogLines,
    LogRequest,
    MachineCommand,
    RestartCommand,
    StacksRequest,
)
from rolldeck.wire import (
    FleetControl,
    FleetEvent,
    FleetReport,
    Fragment,
    FragmentPush,
    FragmentReceipt,
    WeightsManifest,
    WorkerReport,
)
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.process.settings import FleetSettings


class SmallPlatform:
    """State served by the handler below; tests read and change it, protected only by the GIL."""

    def __init__(self, *, room: int = 10_000) -> None:
        self.desired = "running"
        self.epoch = 1
        self.policy_step = -2
        self.pinned: int | None = None
        self.weights_command = 0
        self.room = room
        self.num_workers = 0
        self.files: dict[tuple[int, int], tuple[WeightsManifest, bytes]] = {}
        self.fragments: dict[tuple[str, int], Fragment] = {}
        self.order: list[tuple[str, int]] = []
        self.duplicates = 0
        self.reports: list[FleetReport] = []
        self.status = 0
        """Status of all answers to pushes and reports; 0 for real answers."""
        self.refused: list[str] = []
        """Paths of the calls with that answer."""
        self.log_requests: list[LogRequest] = []
        self.log_answers: dict[str, LogLines] = {}
        self.restarts: list[RestartCommand] = []
        self.cordons: list[CordonCommand] = []
        self.machines: list[MachineCommand] = []
        self.stacks: list[StacksRequest] = []
        self.gate = threading.Event()
        """Pushes are answered while it is set."""
        self.gate.set()
        self.loses_answers = False
        """Whether to accept pushes and close the connection without an answer."""

    def remaining(self) -> int:
        return max(0, self.room - len(self.fragments))

    def control(self) -> FleetControl:
        remaining = self.remaining()
        pending = [request for request in self.log_requests if request.id not in self.log_answers]
        requests = "/".join(log_request.id for log_request in pending)
        orders = f"{self.desired}/{self.epoch}/{self.policy_step}/{remaining}/{requests}"
        stacks = [stack for stack in self.stacks if stack.id not in self.log_answers]
        orders += f"/{self.num_workers}/{self.restarts}/{self.cordons}/{stacks}"
        orders += f"/{self.weights_command}/{self.machines}"
        return FleetControl(
            fingerprint=orders,
            desired=self.desired,  # type: ignore[arg-type]
            epoch=self.epoch,
            policy_step=self.policy_step if self.pinned is None else self.pinned,
            weights_command=self.weights_command,
            admission_remaining=remaining,
            log_requests=pending,
            num_workers=self.num_workers,
            restarts=list(self.restarts),
            cordons=list(self.cordons),
            machines=list(self.machines),
            stacks=stacks,
        )

    def publish(
        self,
        step: int,
        *,
        epoch: int = 1,
        module: MlpPolicy | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        state = (module or MlpPolicy(4, 2, [8])).state_dict() if weights is None else weights
        content = safetensors.encode({name: value.numpy() for name, value in state.items()})
        manifest = WeightsManifest(
            epoch=epoch,
            step=step,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            tensors=safetensors.specs(content),
        )
        self.files[epoch, step] = manifest, content
        self.epoch, self.policy_step = epoch, step

    def command(self, *, pinned: int | None) -> None:
        """Pin a version, or follow the newest; repeating the same order is a sync."""
        self.pinned = pinned
        self.weights_command += 1

    def take(self, body: bytes) -> FragmentReceipt:
        accepted = duplicates = 0
        for raw in msgspec.msgpack.decode(body, type=FragmentPush).fragments:
            fragment = msgspec.msgpack.decode(raw, type=Fragment)
            key = fragment.slot, fragment.number
            if key in self.fragments:
                duplicates += 1
                continue
            self.fragments[key] = fragment
            self.order.append(key)
            accepted += 1
        self.duplicates += duplicates
        return FragmentReceipt(
            accepted=accepted,
            duplicates=duplicates,
            dropped={},
            admission_remaining=max(0, self.room - len(self.fragments)),
        )

    def answer_to(self, path: str, body: bytes, key: str) -> bytes:
        """Answer a call of optional APIs; None if this platform does not support it."""
        del path, body, key
        return b""

    def workers(self) -> list[WorkerReport]:
        """Return the workers of the last report."""
        return [worker for report in self.reports[-1:] for worker in report.workers]

    def is_in_order(self) -> bool:
        """Return whether the fragments of each slot came in order, without gaps."""
        by_slot: dict[str, list[int]] = {}
        for slot, number in self.order:
            by_slot.setdefault(slot, []).append(number)
        return all(numbers == list(range(len(numbers))) for numbers in by_slot.values())

    def events(self) -> list[str]:
        return [event.kind for event in self.all_events()]

    def messages(self, kind: str) -> list[str]:
        return [event.message for event in self.all_events() if event.kind == kind]

    def all_events(self) -> list[FleetEvent]:
        # An undelivered report is sent again under the same number.
        by_number = {report.sequence: report.events for report in self.reports}
        return [event for events in by_number.values() for event in events]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    platform: SmallPlatform

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        platform = self.platform
        if path.endswith("/fleet/control"):
            self._wait_for_change(dict(parse_qsl(query)))
            self._answer(msgspec.json.encode(platform.control()))
        elif path.endswith("/weights/current"):
            newest = max(platform.files, default=None)
            if platform.pinned is not None and "acting=1" in query:
                newest = platform.epoch, platform.pinned
            if newest is None:
                self._answer(b'{"code": "no_weights"}', status=404)
            else:
                self._answer(msgspec.json.encode(platform.files[newest][0]))
        else:
            epoch, step = path.rsplit("/", 2)[1:]
            self._answer(platform.files[int(epoch), int(step)][1])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        platform = self.platform
        if platform.status:
            platform.refused.append(self.path)
            self._answer(b"{}", status=platform.status)
        elif self.path.endswith("/fragments"):
            platform.gate.wait()
            receipt = platform.take(body)
            if platform.loses_answers:
                self.close_connection = True
                return
            self._answer(msgspec.json.encode(receipt))
        elif "/fleet/logs/" in self.path:
            request_id = self.path.rpartition("/")[2]
            platform.log_answers[request_id] = msgspec.json.decode(body, type=LogLines)
            self._answer(b"{}")
        elif not self.path.endswith("/fleet/report"):
            answer = platform.answer_to(self.path, body, self.headers.get("Idempotency-Key", ""))
            self._answer(answer, status=200 if answer else 404)
        else:
            platform.reports.append(msgspec.json.decode(body, type=FleetReport))
            self._answer(msgspec.json.encode(platform.control()))

    def _is_known(self, parameters: dict[str, str]) -> bool:
        """Return whether the fleet has the newest control."""
        return self.platform.control().fingerprint == parameters.get("after", "")

    def _wait_for_change(self, parameters: dict[str, str]) -> None:
        until = time.monotonic() + min(2.0, float(parameters.get("wait", 0)))
        while time.monotonic() < until and self._is_known(parameters):
            time.sleep(0.01)

    def _answer(self, body: bytes, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Discard log messages."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close the connections of clients, as the end of a process does."""
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients may disconnect."""


@contextmanager
def served(platform: SmallPlatform, *, port: int = 0) -> Iterator[str]:
    """Serve `platform` until the end of the block; yield its URL."""
    handler = type("Handler", (_Handler,), {"platform": platform})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()
        thread.join()


@contextmanager
def running(
    make_settings: Callable[..., FleetSettings], *, room: int = 10_000, **settings: Any
) -> Iterator[SmallPlatform]:
    """Run a fleet in this process, and its platform with version 0 of the weights; yield that."""
    platform = SmallPlatform(room=room)
    platform.publish(0)
    with served(platform) as url, LocalFleet(make_settings(url=url, **settings)):
        yield platform
