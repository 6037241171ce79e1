"""Client of a separate inference server: `rolldeck inference`, vLLM or SGLang."""

import asyncio
import math
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
from anyio.from_thread import BlockingPortal

from rolldeck import tracing
from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.engine import Answer, Prompt, Version
from rollouts.fleet.inference.adapters import Adapter, Adapters, AdapterServer
from rollouts.fleet.inference.contract import NOTHING, FixedWeights, InferenceFailed, WeightsRoute
from rollouts.fleet.inference.dialects import (
    DIALECTS,
    Dialect,
    Expected,
    VersionUnreported,
    lacks,
    prompt_error,
)
from rollouts.fleet.inference.reloading import SglangReload, VllmReload
from rollouts.fleet.inference.replicas import UploadedWeights
from rollouts.fleet.inference.shared_folder import SharedFolder, SharedSleep
from rollouts.fleet.inference.transfers import TransferredWeights, VllmTransfer
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit
from runs.config.rules.language_config import AdapterConfig
from runs.config.rules.servers import InferenceServerSettings

REQUESTS_AT_A_TIME: Final = 64
"""Maximum number of concurrent requests; further prompts wait in this process."""
POLL_SECONDS: Final = 0.1
START_SECONDS: Final = 30.0
"""Time limit for starting the event loop."""
CLOSE_SECONDS: Final = 0.5
"""Time limit for closing connections."""
CHECKED_SECONDS: Final = 60.0
"""Time for which a check of all replicas stays valid."""
RETRIED: Final = frozenset({429, 502, 503, 504})
ABSENT: Final = frozenset({403, 404})
"""Status codes of a route that the server does not have or does not enable."""
FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS = 0.1, 5.0
NO_ADAPTER: Final = Adapter("", NOTHING)
WHOLE: Final = AdapterConfig()
"""The run trains all weights."""
OUTAGE_SECONDS: Final = 5.0
"""Time from which failing requests count as an outage."""


class HttpInferenceServer:
    """Inference server over HTTP (:mod:`rollouts.fleet.inference.contract`).

    The workers of a run may share a server.

    With adapters, requests name the version of their answers. Otherwise `rolldeck inference` and
    vLLM with ``--enable-scale-out`` report the version of each token. Other answers get the oldest
    version that a replica may have used when the request was sent, so a label is never newer than
    the weights.
    """

    def __init__(
        self,
        settings: InferenceServerSettings,
        *,
        run: str = "",
        is_fixed: bool = False,
        adapter: AdapterConfig = WHOLE,
    ) -> None:
        """Set up the client without a request.

        Args:
            settings: Address, protocol and credentials of the server.
            run: Name or key of the run that trains the weights.
            is_fixed: Whether the server keeps its weights, whose version is then unknown.
            adapter: Adapters that the run trains; of rank 0 if it trains all weights.

        Raises:
            PolicyDoesNotFit: If vLLM or SGLang has neither `weights_directory` nor, for all weights
                of a model, `weight_transfer`.
        """
        self._settings, self._run, self._is_fixed = settings, run, is_fixed
        self._dialect = DIALECTS[settings.kind]
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._health = httpx.Client(base_url=settings.url, headers=headers, timeout=5.0)
        self._replicas = {
            url: httpx.Client(base_url=url, headers=headers, timeout=30.0)
            for url in settings.replicas
        }
        self._adapters: Adapters | None = None
        if adapter.rank and not is_fixed:
            kind, model = settings.kind, settings.model
            servers = {
                url: AdapterServer(http, kind=kind, model=model)
                for url, http in self._replicas.items()
            }
            folder = shared_folder(settings)
            self._adapters = Adapters(folder, servers, run=run, adapter=adapter)
        self._weights: WeightsRoute = self._adapters or (
            FixedWeights() if is_fixed else weights_route(settings, self._replicas, run=run)
        )
        self._sleep = (
            SharedSleep(shared_folder(settings), self._replicas, kind=settings.kind)
            if settings.sleep
            else None
        )
        self._repairing, self._checked = asyncio.Lock(), -math.inf
        """Lock of the check of all replicas, and the time of the last one."""
        self._failing: tuple[float, str] | None = None
        """Time of the first failure since the last success, and the newest failure."""
        self._http = httpx.AsyncClient(
            base_url=settings.url,
            headers=headers,
            timeout=httpx.Timeout(30.0, read=None),
            limits=httpx.Limits(max_connections=REQUESTS_AT_A_TIME),
        )
        started: Future[tuple[asyncio.AbstractEventLoop, BlockingPortal]] = Future()
        self._runner = threading.Thread(
            target=anyio.run, args=(self._send_requests, started), daemon=True
        )
        self._runner.start()
        self._loop, self._portal = started.result(START_SECONDS)

    @property
    def version(self) -> Version:
        """Epoch and step of the weights in use.

        Raises:
            InferenceFailed: If the server cannot be reached.
        """
        try:
            return self._weights.current()
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise InferenceFailed(f"{self._settings.url} reports no version: {error}") from error

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        is_filtered = any(one.sampling.top_p < 1 or one.sampling.top_k for one in prompts)
        if is_filtered and self._dialect.filters_logprobs and not self._is_fixed:
            raise InferenceFailed(
                "vLLM reports log probabilities after top_p and top_k; training requires top_p 1 "
                "and top_k 0"
            )
        found: dict[int, list[Answer]] = {}
        with self._awake():
            deadline = time.monotonic() + timeout_seconds
            pending = self._portal.start_task_soon(self._all, prompts, found, deadline)
            try:
                while not stop.is_set():
                    try:
                        pending.result(POLL_SECONDS)
                        break
                    except TimeoutError:
                        if time.monotonic() > deadline:
                            raise self._failed("did not answer within the time limit") from None
            finally:
                # Closing the connections lets the server free its rows.
                pending.cancel()
        return [
            found.get(place)
            or [
                Answer(request=0, index=index, finish="cancelled")
                for index in range(prompt.answers)
            ]
            for place, prompt in enumerate(prompts)
        ]

    def update_weights(self, tensors: Mapping[str, Any], version: Version) -> None:
        with self._awake():
            self._weights.update(tensors, version)

    def _awake(self) -> AbstractContextManager[None]:
        return nullcontext() if self._sleep is None else self._sleep.awake()

    def rest(self) -> None:
        if self._sleep is not None:
            self._sleep.rest()

    def unanswered_seconds(self) -> float:
        failing = self._failing
        return 0.0 if failing is None else time.monotonic() - failing[0]

    def outage(self) -> str:
        """Return for how long and why requests have failed; empty if the newest succeeded.

        A failed request is repeated until its time limit; shorter outages are not reported.
        """
        failing, seconds = self._failing, self.unanswered_seconds()
        if failing is None or seconds < OUTAGE_SECONDS:
            return ""
        return (
            f"the inference server {self._settings.url} has not answered for {seconds:.0f} s: "
            f"{failing[1]}"
        )

    def replicas(self) -> list[ReplicaReport]:
        return self._weights.replicas()

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        deadline = time.monotonic() + timeout_seconds
        # Routers may lack the route.
        healthy = {200, 404} if self._settings.control else {200}
        while True:
            try:
                if self._health.get("/health").status_code in healthy:
                    return True
            except httpx.HTTPError:
                pass
            if time.monotonic() > deadline or stop.wait(POLL_SECONDS):
                return False

    def close(self) -> None:
        """Close all connections; the server keeps running."""
        if self._runner.is_alive():
            asyncio.run_coroutine_threadsafe(self._portal.stop(cancel_remaining=True), self._loop)
        self._runner.join(CLOSE_SECONDS)
        for client in (self._health, *self._replicas.values()):
            client.close()
        if self._adapters is not None:
            self._adapters.close()
        if self._sleep is not None:
            self._sleep.close()

    async def _send_requests(
        self, started: "Future[tuple[asyncio.AbstractEventLoop, BlockingPortal]]"
    ) -> None:
        """Send requests until `close`.

        Requests are cancelled through anyio, because only its cancellation leaves httpx the time to
        close the connections of a request and those that have expired.
        """
        async with self._http, BlockingPortal() as portal:
            started.set_result((asyncio.get_running_loop(), portal))
            await portal.sleep_until_stopped()

    async def _all(
        self, prompts: Sequence[Prompt], found: dict[int, list[Answer]], deadline: float
    ) -> None:
        turns = asyncio.Semaphore(REQUESTS_AT_A_TIME)
        model = self._settings.model or self._settings.kind

        async def one(place: int, prompt: Prompt) -> None:
            async with turns:
                with tracing.span(f"text_completion {model}", kind="client") as opened:
                    answers = found[place] = await self._generate_one(prompt, deadline)
                    tracing.add_genai(
                        opened,
                        operation="text_completion",
                        provider=self._settings.kind,
                        model=model,
                        input_tokens=len(prompt.tokens),
                        output_tokens=sum(len(answer.tokens) for answer in answers),
                    )

        try:
            async with anyio.create_task_group() as tasks:
                for place, prompt in enumerate(prompts):
                    tasks.start_soon(one, place, prompt)
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _generate_one(self, prompt: Prompt, deadline: float) -> list[Answer]:
        """Return the answers to one prompt, retrying while the server is busy or restarting."""
        wait = FIRST_WAIT_SECONDS
        while True:
            dialect, sent = self._dialect, time.monotonic()
            using = nullcontext(NO_ADAPTER) if self._adapters is None else self._adapters.used()
            with using as adapter:
                expected = self._expected(dialect, adapter)
                body = dialect.body(prompt, model=self._settings.model, adapter=adapter.name)
                response: httpx.Response | None = None
                try:
                    headers = tracing.headers()
                    response = await self._http.post(dialect.path, json=body, headers=headers)
                    failure = f"{response.status_code} {response.text[:500]}"
                except httpx.TransportError as error:
                    failure = str(error) or type(error).__name__
            # Not the model, but the route does not exist.
            is_absent = (
                response is not None
                and response.status_code in ABSENT
                and "does not exist" not in response.text
            )
            if is_absent and dialect.fallback:
                if self._settings.weight_transfer and not self._is_fixed:
                    raise self._failed("weight_transfer requires vLLM with --enable-scale-out")
                self._dialect = dialect.fallback
                continue
            if response is not None and response.status_code not in RETRIED:
                before, self._failing = self._failing, None
                try:
                    return self._read(response, prompt, dialect, expected)
                except VersionUnreported as reason:
                    self._failing = before
                    failure = f"an answer does not report its weights: {reason}"
                    await self._repair(sent)
            since = time.monotonic() if self._failing is None else self._failing[0]
            self._failing = since, failure
            wished = response.headers.get("Retry-After", "") if response is not None else ""
            seconds = float(wished) if wished.isdigit() else 0.0
            if time.monotonic() + (seconds or wait) > deadline:
                raise self._failed(f"{dialect.path}: {failure}")
            await asyncio.sleep(seconds or wait * (0.5 + random.random() / 2))  # noqa: S311
            wait = min(2 * wait, MOST_WAIT_SECONDS)

    def _expected(self, dialect: Dialect, adapter: Adapter) -> Expected:
        if adapter.name:
            return Expected(run=self._run, version=adapter.version, model=adapter.name)
        if isinstance(self._weights, TransferredWeights):
            version, is_labelled = NOTHING, self._weights.has_transferred
        else:
            version = NOTHING if dialect.reports_versions else self._weights.oldest()
            is_labelled = (
                bool(self._settings.control)
                and dialect.reports_labels
                and self._weights.current() != NOTHING
            )
        model = self._settings.model
        return Expected(run=self._run, version=version, model=model, is_labelled=is_labelled)

    async def _repair(self, sent: float) -> None:
        """Label replicas that were started again, after an answer without a version.

        Args:
            sent: Time at which the request of the answer was sent.

        Raises:
            InferenceFailed: If all replicas had a version before the request was sent, and still
                have it.
        """
        async with self._repairing:
            was_checked = self._checked < sent < self._checked + CHECKED_SECONDS
            try:
                repaired = await asyncio.to_thread(self._weights.repair)
            except InferenceFailed:
                return  # the request is repeated, and meanwhile another replica may answer
            self._checked = time.monotonic()
        if was_checked and not repaired:
            raise self._failed(
                "answers do not report the version of their weights, or lack its adapter, but each "
                "replica in `control` has it: an engine behind this address is missing in `control`"
            )

    def _failed(self, reason: str) -> InferenceFailed:
        return InferenceFailed(f"the inference server {self._settings.url}: {reason}")

    def _read(
        self, response: httpx.Response, prompt: Prompt, dialect: Dialect, expected: Expected
    ) -> list[Answer]:
        has_failed = response.status_code != 200
        if has_failed and self._adapters and lacks(expected.model, response.text):
            raise VersionUnreported(f"{response.status_code} {response.text[:500]}")
        if response.status_code == 400 and (error := prompt_error(response.text)):
            raise error
        if has_failed:
            raise self._failed(f"{dialect.path}: {response.status_code} {response.text[:500]}")
        try:
            answers = dialect.answers(response.content, expected)
        except VersionUnreported:
            raise
        except ValueError as error:
            raise self._failed(f"{dialect.path}: {error}") from error
        if prompt.sampling.is_greedy and not dialect.repeats_greedy and len(answers) == 1:
            answers = [
                replace(deepcopy(answers[0]), index=index) for index in range(prompt.answers)
            ]
        if len(answers) != prompt.answers:
            raise self._failed(f"{len(answers)} answers received, expected {prompt.answers}")
        return answers


def weights_route(
    settings: InferenceServerSettings, replicas: Mapping[str, httpx.Client], *, run: str
) -> WeightsRoute:
    """Return the route of all weights of a model.

    Args:
        settings: Description of the server.
        replicas: Clients by address.
        run: Name or key of the run that trains the weights.

    Raises:
        PolicyDoesNotFit: If vLLM or SGLang has neither `weights_directory` nor `weight_transfer`.
    """
    kind, model = settings.kind, settings.model
    if kind == "rolldeck":
        return UploadedWeights(replicas, run=run)
    if settings.weight_transfer:
        engines = {url: VllmTransfer(http, model=model) for url, http in replicas.items()}
        return TransferredWeights(engines, run=run)
    reload = VllmReload if kind == "vllm" else SglangReload
    readers = {url: reload(http, model=model) for url, http in replicas.items()}
    return SharedFolder(shared_folder(settings), readers, run=run)


def shared_folder(settings: InferenceServerSettings) -> Path:
    """Return the folder of the served model; raises PolicyDoesNotFit if it is not set."""
    if not settings.weights_directory:
        raise PolicyDoesNotFit(
            "language.inference", f"{settings.kind} requires weights_directory to read weights from"
        )
    return Path(settings.weights_directory)
