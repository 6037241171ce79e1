"""An environment with a rollout handler that reports to W&B until SIGTERM.

python tracked_environment.py URL TOKEN
"""

import signal
import sys
import time
from pathlib import Path

from rolldeck.handler import EnvironmentOffer, Group, Pace, RolloutHandler
from rolldeck.trackers.environment import EnvironmentTracker
from rolldeck.trackers.wandb_tracker import WandbTracker


def produce() -> Group:
    time.sleep(0.2)
    return {"tokens": [[1, 2], [1, 3]], "masks": [[-100, 2], [-100, 3]], "scores": [0.0, 1.0]}


def main(url: str, token: str) -> None:
    offer = EnvironmentOffer(desired_name="addition", max_token_length=64, group_size=2)
    with (
        EnvironmentTracker(WandbTracker, spool=Path("events.jsonl")) as tracker,
        RolloutHandler(
            f"{url}/atropos/sums",
            offer,
            token=token,
            tracker=tracker,
            pace=Pace(poll_seconds=0.2, off_policy_tolerance=100),
        ) as handler,
    ):
        signal.signal(signal.SIGTERM, lambda *_: handler.stop())
        handler.run(produce)


if __name__ == "__main__":
    main(*sys.argv[1:])
