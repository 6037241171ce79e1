"""Transfer weights to vLLM over HTTP, in the four phases of its weight transfer.

The engines run the backend `rolldeck` (:mod:`rolldeck.integrations.vllm_engine`), which downloads
the weights from the worker while generation continues. Source of the routes:
``vllm/entrypoints/rl/online`` in vLLM 0.32.
"""

import hashlib
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from rolldeck.closing import Closing
from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import (
    NOTHING,
    InferenceFailed,
    Unreachable,
    encoded,
    label_of,
    owner_of,
    version_in,
)
from rollouts.fleet.inference.reloading import (
    VllmReload,
    check_model,
    paused,
    post,
    post_json,
)
from rollouts.fleet.inference.replicas import Replicas, ReplicasBehind
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

OPTION: Final = """--weight-transfer-config '{"backend": "rolldeck"}'"""
POLL_SECONDS: Final = 0.2
REQUEST_SECONDS: Final = 10.0
"""Time for the engine's first request; none follows if it cannot reach this worker, or downloads
the same file from another worker."""
ABANDONED_SECONDS: Final = 10.0
"""Time after which an update counts as abandoned by a worker that ended.

An engine responds to other requests only between two phases of an update, which follow each other
without a delay.
"""
MISFIT: Final = re.compile(r"names or shapes differ: [^']*")
CONNECT_SECONDS: Final = 10.0
SEND_SECONDS: Final = 600.0


class OfferedFile(Closing):
    """Server with one file, under an address that cannot be guessed."""

    def __init__(self, content: bytes, *, reader: str) -> None:
        """Offer the file at the network interface that leads to its reader.

        Args:
            content: The file.
            reader: HTTP address of a service on the reader's host.

        Raises:
            Unreachable: If the reader's host cannot be reached.
        """
        requested, sent = self._requested, self._sent = threading.Event(), threading.Event()
        path = f"/{secrets.token_urlsafe(16)}"
        # The interface that leads to the reader.
        parts = urlsplit(reader)
        address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with socket.create_connection(address, CONNECT_SECONDS) as connection:
                family, host = connection.family, connection.getsockname()[0]
        except OSError as error:
            raise Unreachable(f"{reader}: {error}") from error

        class Server(ThreadingHTTPServer):
            address_family = family
            daemon_threads = True

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != path:
                    self.send_error(404)
                    return
                requested.set()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                finally:
                    sent.set()

            def log_message(self, *_: Any) -> None:
                """Write no access log."""

        self._server = Server((host, 0), Handler)
        port = self._server.server_address[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def is_requested(self, seconds: float) -> bool:
        """Return whether the file is requested within some seconds."""
        return self._requested.wait(seconds)

    def wait_until_sent(self) -> None:
        """Wait until the file was sent once, or the connection ended."""
        self._sent.wait(SEND_SECONDS)

    def close(self) -> None:
        """Close the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Weights(NamedTuple):
    """A version as a safetensors file."""

    content: bytes
    sha256: str
    version: Version
    label: str


class TransferredWeights:
    """Route to engines of vLLM without a shared folder.

    The label of an engine is the only record of its version.
    """

    def __init__(self, replicas: "Mapping[str, VllmTransfer]", *, run: str) -> None:
        self._replicas, self._run = Replicas(replicas), run
        self._newest: tuple[Mapping[str, Any], Version] | None = None
        """The last version that this worker transferred, for replicas that are started again."""

    @property
    def has_transferred(self) -> bool:
        """Whether this worker has transferred a version."""
        return self._newest is not None

    def current(self) -> Version:
        return max(self._versions())

    def oldest(self) -> Version:
        return min(self._versions())

    def update(self, tensors: Mapping[str, Any], version: Version) -> None:
        if self._newest is not None and self._newest[1] > version:
            return
        try:
            self._roll(tensors, version)
        except ReplicasBehind:
            self._newest = tensors, version
            raise
        self._newest = tensors, version

    def repair(self) -> bool:
        """Load the last version into replicas without it, such as restarted ones."""
        return self._newest is not None and self._roll(*self._newest)

    def replicas(self) -> list[ReplicaReport]:
        return self._replicas.reports()

    def _roll(self, tensors: Mapping[str, Any], version: Version) -> bool:
        """Load a version into replicas with an earlier one; return whether there were any."""
        weights: Weights | None = None

        def load(server: VllmTransfer) -> None:
            nonlocal weights
            if server.version(self._run) >= version:
                return
            if weights is None:
                content = encoded(tensors)
                digest = hashlib.sha256(content).hexdigest()
                weights = Weights(content, digest, version, label_of(self._run, version))
            server.load(weights, self._run)

        self._replicas.roll(version, load)
        return weights is not None

    def _versions(self) -> list[Version]:
        return list(self._replicas.versions(lambda server: server.version(self._run)).values())


class VllmTransfer:
    """A replica of vLLM with the backend `rolldeck`."""

    def __init__(self, http: httpx.Client, *, model: str = "") -> None:
        self._http, self._model = http, model
        self._reload = VllmReload(http, model=model)

    def version(self, run: str) -> Version:
        """Return the version in use.

        Raises:
            InferenceFailed: If it belongs to another run.
            Unreachable: If the replica does not respond.
        """
        label = self._reload.label()
        try:
            return version_in(label or "", run=run) or NOTHING
        except ValueError as error:
            owner, version = owner_of(label or "")
            raise InferenceFailed(
                f"the server holds version {version} of run {owner!r}, and a server serves one run "
                "at a time. Use another server, or start this one again after that run has ended"
            ) from error

    def load(self, weights: Weights, run: str) -> None:
        """Transfer a version, and label it. Generation is paused for the last two phases.

        Raises:
            InferenceFailed: If the server refuses or ends.
            Unreachable: If it cannot be reached, and has therefore changed nothing.
            WeightsDoNotFit: If names or shapes differ from those of the served checkpoint.
        """
        check_model(self._http, self._model)
        with OfferedFile(weights.content, reader=str(self._http.base_url)) as offered:
            source = {"url": offered.url, "size": len(weights.content), "sha256": weights.sha256}
            path = "/init_weight_transfer_engine"
            response = post(self._http, path, {"init_info": source})
            if response.status_code != httpx.codes.OK:
                problem = f"POST {path}: {response.status_code} {response.text[:500]}"
                if response.status_code == httpx.codes.NOT_FOUND:
                    raise InferenceFailed(f"{problem}; start vLLM with VLLM_SERVER_DEV_MODE=1")
                raise InferenceFailed(
                    f"{problem}; install rolldeck in the environment of vLLM, and start "
                    f"vLLM with {OPTION}"
                )
            if not (self._wait(offered, weights, run) and self._start(weights, run)):
                return
            chosen = {"update_info": {"sha256": weights.sha256}}
            try:
                with paused(self._http, ("/pause?mode=keep", None), ("/resume", None)):
                    post_json(self._http, "/update_weights", chosen)
                    post_json(self._http, "/reset_prefix_cache?reset_running_requests=true")
                    label = {"weight_version": weights.label}
                    post_json(self._http, "/finish_weight_update", label)
            except InferenceFailed as failure:
                if found := MISFIT.search(str(failure)):
                    raise WeightsDoNotFit(found[0]) from failure
                raise

    def _wait(self, offered: OfferedFile, weights: Weights, run: str) -> bool:
        """Wait for the download; return False if another worker has loaded the version."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while not offered.is_requested(POLL_SECONDS):
            if self.version(run) >= weights.version:
                return False
            if time.monotonic() > deadline:
                return True
        offered.wait_until_sent()
        return True

    def _start(self, weights: Weights, run: str) -> bool:
        """Begin an update; return False if another worker has loaded the version."""
        deadline = time.monotonic() + ABANDONED_SECONDS
        while True:
            response = post(self._http, "/start_weight_update")
            has_started = response.status_code == httpx.codes.OK
            if not has_started and "already active" not in response.text:
                problem = f"{response.status_code} {response.text[:500]}"
                raise InferenceFailed(f"POST /start_weight_update: {problem}")
            if self.version(run) >= weights.version:
                if has_started:
                    post_json(self._http, "/finish_weight_update", {})
                return False
            if has_started or time.monotonic() > deadline:
                return True
            time.sleep(POLL_SECONDS)
