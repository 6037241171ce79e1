"""A reward process, seen from its worker: one call at a time, each with a time limit."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from rollouts.fleet.process import environment_user
from rollouts.fleet.rewards.answers import Answered, RewardFailed, RewardUnusable
from rollouts.fleet.rewards.messages import Build, Built, Call, FromProcess, Scored
from rollouts.fleet.steps.env_messages import Channel
from rollouts.fleet.steps.env_worker import kill_group, process_variables
from rollouts.tasks.rules.dataset_config import OWN, RewardConfig

BOOT: Final = "from rollouts.fleet.rewards.process import main; main()"
START_SECONDS: Final = 60.0


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
                **environment_user.popen_options(),
            )
        self._channel = Channel(ours, receives=FromProcess)
        built = self._exchange(Build(self._rewards), seconds=START_SECONDS)
        if not isinstance(built, Built):
            self.kill()
            raise RewardUnusable("environment_failed", f"the reward process {_ended(built)}")
        if built.kind:
            self.kill()
            raise RewardUnusable(built.kind, built.message)

    def score(self, place: int, answered: Answered) -> float:
        """Return one reward of an answer.

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
            return self._exit_error(error)
        return None

    def _exit_error(self, error: Exception) -> Exception:
        if self._process is None:
            return error
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=0.5)
            return EOFError(f"signal {-code}" if code < 0 else f"exit code {code}")
        return error


def _ended(answer: Any) -> str:
    if answer is None:
        return f"did not start within {START_SECONDS:g} s"
    return str(answer) or type(answer).__name__
