"""Process that computes rewards on request of its parent, over a socket.

:class:`rollouts.fleet.rewards.worker.RewardWorker` starts it. The arguments are the descriptor of
the socket and the parent's process id.
"""

import signal
import socket
import sys
from collections.abc import Mapping

from rollouts.fleet.rewards.answers import RewardUnusable
from rollouts.fleet.rewards.functions import RewardFunction, make_reward, reward_of
from rollouts.fleet.rewards.messages import Build, Built, Call, Scored, ToProcess
from rollouts.fleet.steps.env_messages import Channel
from rollouts.fleet.steps.env_process import die_with_parent
from rollouts.tasks.rules.dataset_config import RewardConfig


def serve(channel: Channel) -> None:
    """Serve the parent's requests until it closes the connection."""
    functions: dict[int, RewardFunction] = {}
    while True:
        for message in channel.receive():
            match message:
                case Build(rewards):
                    built, functions = _build(rewards)
                    channel.send(built)
                case Call(place, answered):
                    reward, error = reward_of(functions[place], answered)
                    channel.send(Scored(reward, error, error.startswith("returned")))


def _build(rewards: Mapping[int, RewardConfig]) -> tuple[Built, dict[int, RewardFunction]]:
    try:
        functions = {place: make_reward(one, place=place) for place, one in rewards.items()}
    except RewardUnusable as error:
        return Built(error.kind, str(error)), {}
    return Built(), functions


def main() -> None:
    """Serve the socket whose descriptor is the first argument."""
    end, parent = map(int, sys.argv[1:3])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve(Channel(socket.socket(fileno=end), receives=ToProcess))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(0) from None
