"""Rewards of many answers, from functions in processes with a time limit, and from judges."""

import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final

import httpx
import msgspec

from rollouts.fleet.process import child_environment
from rollouts.fleet.rewards.functions import (
    Answered,
    Build,
    Built,
    Call,
    FromProcess,
    RewardFailed,
    RewardUnusable,
    Scored,
)
from rollouts.fleet.steps.env_messages import Channel
from rollouts.fleet.steps.env_worker import kill_group, process_variables
from rollouts.tasks.rules.dataset_config import OWN, RewardConfig, options_of
from runs.config.rules.servers import (
    INFERENCE_SERVERS,
    InvalidInferenceServers,
    parse_inference_servers,
)

PATH: Final = "/v1/chat/completions"
NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
RETRIED: Final = frozenset({429, 502, 503, 504})
FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS = 0.25, 4.0
MOST_TOKENS: Final = 1024
BOOT: Final = "from rollouts.fleet.rewards.functions import main; main()"
START_SECONDS: Final = 60.0
JUDGED_AT_A_TIME: Final = 16
POLL_SECONDS: Final = 0.1
MOST_TIMEOUTS: Final = 3
"""Calls of a function in a batch that may exceed the limit; the others then fail at once."""
Scores = list[float | None]
"""Rewards of an answer in the order of the lesson's list; None: not scored."""


class Judge:
    """Client of a judge; thread-safe. The last number of its answer is the reward."""

    def __init__(self, config: RewardConfig, *, place: int) -> None:
        """Look the server up.

        Raises:
            RewardUnusable: If this machine has no such server.
        """
        self._options, self._seconds = options_of(config), config.limit_seconds
        name = self._options.server
        try:
            known = parse_inference_servers(os.environ.get(INFERENCE_SERVERS, ""))
        except InvalidInferenceServers as error:
            raise RewardUnusable("environment_failed", str(error)) from error
        if name not in known:
            raise RewardUnusable(
                "environment_unknown",
                f"rewards[{place}].options.server: {name!r} is not in this machine's "
                f"{INFERENCE_SERVERS}; "
                f"known: {', '.join(sorted(known)) or 'none'}",
            )
        server = known[name]
        self._model = server.model or "default"
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._http = httpx.Client(base_url=server.url, headers=headers)

    def score(self, answered: Answered) -> float:
        """Return the reward of an answer, from 0 to 1.

        Raises:
            RewardFailed: If the judge does not answer in time or answers without a number.
        """
        text = self._options.prompt
        for name in ("prompt", "answer", "response"):
            text = text.replace(f"{{{name}}}", getattr(answered, name))
        answer = self._answer(text)
        if answer.status_code != 200:
            raise RewardFailed("reward_failed", f"HTTP {answer.status_code}: {answer.text[:300]}")
        try:
            completion = msgspec.json.decode(answer.content, type=_Completion)
            content = completion.choices[0].message.content or ""
        except (msgspec.DecodeError, IndexError) as error:
            raise RewardFailed("reward_failed", f"not a chat completion: {error}") from error
        numbers = NUMBER.findall(content)
        if not numbers:
            raise RewardFailed("reward_invalid", f"answered without a number: {content[-200:]!r}")
        return min(1.0, max(0.0, float(numbers[-1]) / self._options.highest))

    def close(self) -> None:
        """Close the connections; calls in progress fail."""
        self._http.close()

    def _answer(self, text: str) -> httpx.Response:
        """Return the judge's answer; busy and unreachable servers are called again."""
        deadline, wait = time.monotonic() + self._seconds, FIRST_WAIT_SECONDS
        problem = "no answer"
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
        }
        while (left := deadline - time.monotonic()) > 0:
            try:
                answer = self._http.post(PATH, json=body, timeout=left)
            except httpx.TimeoutException:
                break
            except (httpx.HTTPError, RuntimeError) as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code not in RETRIED:
                    return answer
                problem = f"HTTP {answer.status_code}"
            time.sleep(max(0.0, min(wait, deadline - time.monotonic())))
            wait = min(2 * wait, MOST_WAIT_SECONDS)
        message = f"did not answer within {self._seconds:g} s ({problem})"
        raise RewardFailed("reward_timeout", message)


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class RewardWorker:
    """A process with the reward functions of a lesson; at most one at a time.

    A call that exceeds its limit ends the process; the next call starts another one. The kernel
    ends the process when the thread that started it ends.
    """

    def __init__(self, rewards: Mapping[int, RewardConfig]) -> None:
        self._rewards = dict(rewards)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the process, unless it runs, and build its functions.

        Raises:
            RewardUnusable: If a function cannot be built.
        """
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env=process_variables(""),
                start_new_session=True,
                **child_environment.popen_options(),
            )
        self._channel = Channel(ours, receives=FromProcess)
        built = self._exchange(Build(self._rewards), seconds=START_SECONDS)
        if not isinstance(built, Built):
            self.kill()
            raise RewardUnusable("environment_failed", f"the reward process {_ended(built)}")
        if built.kind:
            self.kill()
            raise RewardUnusable(built.kind, built.message)

    def score(self, place: int, answered: Answered) -> float | None:
        """Return one reward of an answer; None if the function does not score it.

        Raises:
            RewardFailed: If the function raises, exceeds its limit, returns no finite number, or
                ends the process.
        """
        config = self._rewards[place]
        try:
            self.start()
        except RewardUnusable as error:
            raise RewardFailed("reward_failed", str(error)) from error
        row = answered.row if config.kind.startswith(OWN) else {}
        call = Call(place, Answered(answered.prompt, answered.response, answered.answer, row))
        scored = self._exchange(call, seconds=config.limit_seconds)
        if isinstance(scored, Scored):
            if scored.error:
                kind: Any = "reward_invalid" if scored.is_invalid else "reward_failed"
                raise RewardFailed(kind, scored.error)
            return scored.reward
        self.kill()
        if scored is None:
            message = f"did not return within {config.limit_seconds:g} s"
            raise RewardFailed("reward_timeout", message)
        raise RewardFailed("reward_failed", f"ended its process: {_ended(scored)}")

    def kill(self) -> None:
        """Kill the process, if there is one, and wait until it has ended."""
        channel, self._channel = self._channel, None
        process, self._process = self._process, None
        if process is not None:
            kill_group(process.pid)
            process.wait()
        if channel is not None:
            channel.close()

    def interrupt(self) -> None:
        """End the process from another thread; the present call fails."""
        self._is_closed = True
        process = self._process
        if process is not None and process.returncode is None:
            kill_group(process.pid)

    def _exchange(self, message: Any, *, seconds: float) -> Any:
        """Return the answer to a message; None after the time limit, an exception if it ended."""
        channel = self._channel
        if channel is None or self._is_closed:
            return EOFError("closed")
        deadline = time.monotonic() + seconds
        try:
            channel.send(message)
            waiting = select.poll()
            waiting.register(channel.fileno(), select.POLLIN)
            while (left := deadline - time.monotonic()) > 0:
                if waiting.poll(left * 1000):
                    return channel.receive()[0]
        except (EOFError, OSError) as error:
            if self._process is not None:
                with suppress(subprocess.TimeoutExpired):
                    code = self._process.wait(timeout=0.5)
                    return EOFError(f"signal {-code}" if code < 0 else f"exit code {code}")
            return error
        return None


def _ended(answer: Any) -> str:
    if answer is None:
        return f"did not start within {START_SECONDS:g} s"
    return str(answer) or type(answer).__name__


class RewardPool:
    """Reward functions of a lesson.

    Functions run in processes that hold no secrets and end when a call exceeds its limit. Judges
    are called from threads.
    """

    def __init__(self, rewards: Sequence[RewardConfig], *, processes: int) -> None:
        """Build each function once, so that errors appear before the first answer.

        Raises:
            RewardUnusable: If a function cannot be built on this machine.
        """
        self._rewards = list(rewards)
        self._judges = {
            place: Judge(one, place=place)
            for place, one in enumerate(rewards)
            if one.kind == "judge"
        }
        self._functions = {
            place: one for place, one in enumerate(rewards) if place not in self._judges
        }
        self._local = threading.local()
        self._workers: list[RewardWorker] = []
        self._calls = ThreadPoolExecutor(processes, thread_name_prefix="rewards")
        self._judged = ThreadPoolExecutor(JUDGED_AT_A_TIME, thread_name_prefix="judge")
        try:
            # Processes end with the thread that started them, so threads of the pool start them.
            if self._functions:
                self._calls.submit(lambda: self._worker().start()).result()
        except BaseException:
            self.close()
            raise

    def score(
        self, answers: Sequence[Answered], *, should_stop: Callable[[], bool]
    ) -> list[Scores | tuple[RewardConfig, RewardFailed]] | None:
        """Return the rewards of each answer, or its first failed reward; None if stopped."""
        timeouts = Counter[int]()
        pools = [
            self._judged if place in self._judges else self._calls
            for place in range(len(self._rewards))
        ]
        futures = [
            [
                pool.submit(self._called, place, answered, timeouts)
                for place, pool in enumerate(pools)
            ]
            for answered in answers
        ]
        waiting = {future for row in futures for future in row}
        while waiting:
            if should_stop():
                for future in waiting:
                    future.cancel()
                return None
            _, waiting = wait(waiting, timeout=POLL_SECONDS)
        return [self._result(row) for row in futures]

    def close(self) -> None:
        """End the processes and connections; calls in progress fail."""
        for pool in (self._calls, self._judged):
            pool.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers):
            worker.interrupt()
        # Without their processes the threads end at once.
        self._calls.shutdown(wait=True)
        for worker in self._workers:
            worker.kill()
        for judge in self._judges.values():
            judge.close()

    def _result(
        self, row: Sequence[Future[float | None]]
    ) -> Scores | tuple[RewardConfig, RewardFailed]:
        scores: Scores = []
        for config, future in zip(self._rewards, row, strict=True):
            error = future.exception()
            if isinstance(error, RewardFailed):
                return config, error
            scores.append(future.result())
        return scores

    def _worker(self) -> RewardWorker:
        """Return the worker of this thread."""
        if not hasattr(self._local, "worker"):
            self._local.worker = RewardWorker(self._functions)
            self._workers.append(self._local.worker)
        worker: RewardWorker = self._local.worker
        return worker

    def _called(self, place: int, answered: Answered, timeouts: Counter[int]) -> float | None:
        """Return a reward; a function that hangs on every answer must not delay other lessons."""
        if timeouts[place] >= MOST_TIMEOUTS:
            raise RewardFailed(
                "reward_timeout",
                f"exceeded {self._rewards[place].limit_seconds:g} s for {timeouts[place]} answers "
                "of the batch; the others are not scored",
            )
        try:
            if place in self._judges:
                return self._judges[place].score(answered)
            return self._worker().score(place, answered)
        except RewardFailed as error:
            timeouts[place] += error.kind == "reward_timeout"
            raise
