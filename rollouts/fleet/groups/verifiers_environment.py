"""Environments of verifiers 0.4 as lessons: task set, agents, tools and rewards in a subprocess.

The environment runs in the interpreter that an administrator configured; calls go over pipes, a
JSON object per line. Its client renders each
turn to tokens and generates through a :class:`TokenServer` of this worker, so that the tokens, log
probabilities and policy versions of a rollout are those that the policy sampled.
"""

import logging
import os
import secrets
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from rollouts.fleet.engine.tokenizers import HuggingFaceTokenizer
from rollouts.fleet.groups.batches import CORRECT_FROM, Mode, Rollout, RolloutGroup, TokenColumns
from rollouts.fleet.groups.environment_settings import selection_of, verifiers_settings
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import Fault, LessonFailed, SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.token_server import MODEL, RecordedRollout, TokenServer
from rollouts.fleet.process import child_environment
from rollouts.fleet.process.settings import derive_seed

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.1
ERROR_LINES: Final = 20
SHOWN: Final = 300

Result = msgspec.Raw
HOST: Final = Path(__file__).resolve().parents[1] / "verifiers_host" / "host.py"
KEY_VARIABLE: Final = "ROLLDECK_POLICY_API_KEY"
OVERLONG: Final = "maximum context length"
"""Part of the client's error if a prompt does not fit."""

LOAD_SECONDS: Final = 300.0
GRACE_SECONDS: Final = 30.0
"""Time beyond its rollouts' limits after which an unresponsive host is ended."""


class CallError(Struct, frozen=True):
    """Error of a call."""

    kind: str
    message: str


class Reply(Struct, frozen=True):
    """Message of the host: the result or the error of a call."""

    id: int
    result: msgspec.Raw = msgspec.Raw()
    error: CallError | None = None


class HostProcess:
    """A running host; thread-safe. All calls fail once it has ended."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], *, name: str) -> None:
        """Start the process with exactly these variables; `name` is for errors.

        Raises:
            LessonFailed: ``dependency_missing`` if the interpreter cannot be started.
        """
        self._name = name
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending: dict[int, Future[Result]] = {}
        self._numbers = 0
        self._errors: deque[str] = deque(maxlen=ERROR_LINES)
        self._ending = ""
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                **child_environment.popen_options(),
            )
        except OSError as error:
            raise LessonFailed(
                "dependency_missing", f"{name} needs the interpreter {command[0]}: {error}"
            ) from error
        self._logs = self._thread(self._read_errors)
        self._thread(self._read_replies)

    @property
    def is_alive(self) -> bool:
        """Whether calls are possible."""
        return not self._ending

    def submit(self, call: str, arguments: Mapping[str, Any]) -> Future[Result]:
        """Send a call; return its future result, which fails with `LessonFailed`."""
        future: Future[Result] = Future()
        with self._lock:
            if self._ending:
                future.set_exception(LessonFailed("environment_failed", self._ending))
                return future
            self._numbers += 1
            number = self._numbers
            self._pending[number] = future
        # A host that does not read blocks the writer, but not `_fail`, which ends the host.
        assert self._process.stdin is not None  # noqa: S101 opened above
        message = msgspec.json.encode({"id": number, "call": call, **arguments})
        with self._writing:
            try:
                self._process.stdin.write(message + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError):
                logger.info("%s: the host ended before call %d", self._name, number)
        return future

    def wait(
        self, future: Future[Result], *, seconds: float, stop: threading.Event | None = None
    ) -> Result:
        """Return the result of a call.

        Raises:
            LessonFailed: If the call failed, or did not end in time, which ends the process.
            SamplingStopped: If `stop` is set.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                if stop is not None and stop.is_set():
                    raise SamplingStopped from None
                if time.monotonic() > deadline:
                    self._fail(f"{self._name}: no response within {seconds:g} s; process ended")

    def close(self) -> None:
        """End the process, its tool servers included."""
        self._fail(f"{self._name}: the environment was closed")

    def _read_replies(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 opened above
        with self._process.stdout as lines:
            for line in lines:
                try:
                    reply = msgspec.json.decode(line, type=Reply)
                    with self._lock:
                        future = None if self._ending else self._pending.pop(reply.id)
                except (msgspec.DecodeError, KeyError) as error:
                    shown = line[:SHOWN].decode(errors="replace").strip()
                    self._fail(f"{self._name}: malformed message of the host, {error}: {shown}")
                    continue
                if future is not None and reply.error is not None:
                    text = f"{self._name}: {reply.error.message}"
                    future.set_exception(LessonFailed(reply.error.kind, text))
                elif future is not None:
                    future.set_result(reply.result)
        self._process.wait()
        self._logs.join(1)
        last = "; ".join(self._errors)
        self._fail(
            f"{self._name}: the host ended with exit code {self._process.returncode}: {last}"
        )

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 opened above
        with self._process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                self._errors.append(text[:SHOWN])
                logger.info("%s: %s", self._name, text)

    def _fail(self, text: str) -> None:
        """End the process and fail all pending calls; the first reason counts."""
        with self._lock:
            if self._ending:
                return
            self._ending = text
            pending, self._pending = self._pending, {}
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        for future in pending.values():
            future.set_exception(LessonFailed("environment_failed", text))
        self._process.wait()
        assert self._process.stdin is not None  # noqa: S101 opened above
        with self._writing, suppress(OSError):
            self._process.stdin.close()

    def _thread(self, target: Any) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True, name=f"{self._name} host")
        thread.start()
        return thread


class TokenRun(Struct, frozen=True):
    """Tokens that one message adds; `mask` is set for those that the policy sampled."""

    tokens: list[int]
    mask: list[bool]


class PlayedRollout(Struct, frozen=True):
    """Result of a rollout."""

    error: str
    reward: float | None
    """None: no reward function has scored it."""
    metrics: dict[str, float]
    is_truncated: bool
    branches: list[list[TokenRun]]
    """Token sequences that the policy wrote a part of; each starts with the prompt."""


class PlayedGroup(Struct, frozen=True):
    """Result of all rollouts of a task."""

    task: str
    rollouts: list[PlayedRollout]


class Loaded(Struct, frozen=True):
    """Result of loading the environment."""

    verifiers: str
    tasks: dict[Mode, int]


class VerifiersEnvironment:
    """An environment of the setting; all rollouts of a batch run concurrently."""

    def __init__(self, name: str, kwargs: Mapping[str, Any]) -> None:
        """Start the host and load the environment called `name` in ``ROLLDECK_VERIFIERS``.

        Raises:
            LessonFailed: ``environment_unknown``, ``environment_kwargs``, ``dependency_missing``
                or ``environment_failed``.
        """
        self._name = f"verifiers:{name}"
        self._settings = verifiers_settings(name)
        self._selection = selection_of(name, kwargs)
        self._api_key = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._host: HostProcess | None = None
        self._server: TokenServer | None = None
        self._is_closed = False
        self._tasks: dict[Mode, int] = {}
        self._running()

    @property
    def pass_size(self) -> int:
        """Number of training tasks that the lesson selects."""
        return self._tasks.get("train", 0)

    def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
        """Return the groups of the requested problems; see :class:`GroupEnvironment`.

        The metrics are those of the tasks and the score of each reward function, mean over the
        rollouts. Each pass over the tasks uses a different random order.
        """
        tokenizer = policy.tokenizer
        if not isinstance(tokenizer, HuggingFaceTokenizer):
            raise LessonFailed(
                "tokenizer_unusable",
                f"{self._name} requires a checkpoint with tokenizer.json and "
                'language.model.tokenizer "checkpoint"',
            )
        self._running()
        server = self._serving(policy)
        if not self._tasks[request.mode]:
            raise LessonFailed(
                "environment_failed",
                f"{self._name} has no {request.mode} tasks that the lesson selects",
            )
        rows, size = list[int](), self._tasks[request.mode]
        for number in request.numbers:
            passes, place = divmod(number, size)
            seed = derive_seed(request.problem_seed, request.mode, passes)
            rows.append(int(np.random.default_rng(seed).permutation(size)[place]))
        recorded = [
            [
                RecordedRollout(policy, derive_seed(request.seed, request.mode, row, index))
                for index in range(request.generations)
            ]
            for row in rows
        ]
        everything = [one for group in recorded for one in group]
        for rollout in everything:
            server.add(rollout)
        try:
            played = self._play(policy, tokenizer.folder, request.mode, rows, recorded)
        finally:
            for rollout in everything:
                server.remove(rollout)
        return self._sampled(request, recorded, played)

    def close(self) -> None:
        self._is_closed = True
        if self._host is not None:
            self._host.close()
        if self._server is not None:
            self._server.close()

    def _running(self) -> HostProcess:
        """Return the host with the loaded environment; a host that ended is started again."""
        with self._lock:
            if self._host is not None and self._host.is_alive:
                return self._host
            if self._is_closed:
                raise LessonFailed("environment_failed", f"{self._name} was closed")
            kept = child_environment.with_user(child_environment.for_environments(os.environ))
            variables = kept | {KEY_VARIABLE: self._api_key}
            host = HostProcess([self._settings.python, str(HOST)], variables, name=self._name)
            self._host = host
            arguments = {
                "env": self._settings.env,
                "renderer": self._settings.renderer,
                "max_concurrent": self._settings.max_concurrent,
                "seconds": self._settings.rollout_seconds,
                **msgspec.to_builtins(self._selection),
            }
            try:
                result = host.wait(host.submit("load", arguments), seconds=LOAD_SECONDS)
                self._tasks = _decoded(self._name, result, Loaded).tasks
            except LessonFailed:
                host.close()
                raise
            return host

    def _serving(self, policy: PolicyContext) -> TokenServer:
        with self._lock:
            if self._server is None:
                self._server = TokenServer(
                    context_tokens=policy.context_tokens, api_key=self._api_key
                )
            return self._server

    def _play(
        self,
        policy: PolicyContext,
        tokenizer: Path,
        mode: Mode,
        rows: Sequence[int],
        recorded: Sequence[Sequence[RecordedRollout]],
    ) -> list[PlayedGroup]:
        host, server = self._running(), self._serving(policy)
        sampling = policy.sampling
        common = {
            "mode": mode,
            "base_url": server.url,
            "api_key_var": KEY_VARIABLE,
            "model": MODEL,
            "tokenizer": str(tokenizer),
            "sampling": {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "max_tokens": sampling.max_tokens,
            },
        }
        calls = [
            host.submit("run", common | {"row": row, "rollouts": [one.key for one in rollouts]})
            for row, rollouts in zip(rows, recorded, strict=True)
        ]
        waves = -(-sum(map(len, recorded)) // self._settings.max_concurrent)
        seconds = waves * self._settings.rollout_seconds + GRACE_SECONDS
        results = [host.wait(call, seconds=seconds, stop=policy.stop) for call in calls]
        return [_decoded(self._name, result, PlayedGroup) for result in results]

    def _sampled(
        self,
        request: RolloutRequest,
        recorded: Sequence[Sequence[RecordedRollout]],
        played: Sequence[PlayedGroup],
    ) -> Sampled:
        groups, metrics = list[RolloutGroup](), dict[str, list[float]]()
        for number, records, group in zip(request.numbers, recorded, played, strict=True):
            key = f"{self._name}:{request.mode}:{group.task}"
            found = [
                _rollout(key, record, one)
                for record, one in zip(records, group.rollouts, strict=True)
            ]
            for one, outcome in zip(group.rollouts, found, strict=True):
                for name, value in one.metrics.items() if isinstance(outcome, Rollout) else ():
                    metrics.setdefault(name, []).append(value)
            groups.append(
                RolloutGroup(
                    example=key,
                    rollouts=[one for one in found if isinstance(one, Rollout)],
                    failed=[one for one in found if isinstance(one, Fault)],
                    number=number,
                )
            )
        means = {name: sum(values) / len(values) for name, values in metrics.items()}
        return Sampled(groups=groups, metrics=means)


def _decoded(name: str, result: msgspec.Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(result, type=kind)
    except msgspec.DecodeError as error:
        raise LessonFailed(
            "environment_failed", f"{name}: malformed message of the host: {error}"
        ) from error


def _rollout(key: str, record: RecordedRollout, played: PlayedRollout) -> Rollout | Fault:
    """Return a rollout with the log probabilities and versions of its recorded answers.

    Of several token sequences it has one, drawn with equal probabilities. Each rollout then counts
    once in the advantages, and the group has the size that fills a batch exactly.

    Raises:
        SamplingStopped: If the worker is stopping.
        InferenceFailed: If the server failed.
    """
    if record.failure is not None:
        raise record.failure
    if played.error:
        is_overlong = record.is_overlong or OVERLONG in played.error
        kind = "prompt_too_long" if is_overlong else "rollout_failed"
        return Fault(kind, f"{key}: {played.error}"[:2000])
    if not played.branches:
        return Fault("rollout_failed", f"{key}: no token of the policy")
    drawn = derive_seed(record.seed, "sequence") % len(played.branches)
    columns = TokenColumns()
    for run in played.branches[drawn]:
        start = len(run.tokens) - sum(run.mask)
        columns.add_given(run.tokens[:start])
        if start < len(run.tokens):
            answer = record.answers.get((tuple(columns.tokens), tuple(run.tokens[start:])))
            if answer is None or any(run.mask[:start]):
                return Fault("rollout_failed", f"{key}: turn without a recorded answer")
            columns.add_own(answer)
    tokens, is_own = columns.tokens, columns.is_own
    reward = float("nan") if played.reward is None else played.reward
    first = is_own.index(True) if any(is_own) else len(tokens)
    return Rollout(
        tokens=tokens,
        is_own=is_own,
        logprobs=columns.logprobs,
        versions=columns.versions,
        reward=reward,
        is_correct=reward >= CORRECT_FROM,
        is_truncated=played.is_truncated,
        prompt=record.policy.tokenizer.decode(tokens[:first]),
        response=record.policy.tokenizer.decode(tokens[first:]),
    )
