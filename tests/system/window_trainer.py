"""Trainer that holds three batches: ``python -m tests.system.window_trainer URL RUN TOKEN``.

It prints the ordinal and the digest of each batch that it receives. A step takes one second, and
batches that it has trained on are acknowledged.
"""

import hashlib
import sys
import time

from rolldeck.trainer import Trainer

STEP_SECONDS = 1.0


def main(url: str, run: str, token: str) -> None:
    """Train until the run ends."""
    with Trainer(url, run, token) as trainer:
        trainer.register(resume=True)
        for batch in trainer.batches(ahead=2):
            content = hashlib.sha256(b"".join(batch.items)).hexdigest()
            print(batch.head.ordinal, content, flush=True)  # noqa: T201 read by the test
            time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
