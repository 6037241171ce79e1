"""A trainer with the requests of Atropos' example trainer: ``python my_trainer.py URL``.

It appends every batch to `batches.jsonl`, and needs requests only.
"""

import json
import sys
import time
from pathlib import Path

import requests

REGISTRATION = {
    "wandb_group": "",
    "wandb_project": "",
    "batch_size": 16,
    "max_token_len": 8,
    "starting_step": 0,
    "checkpoint_dir": "",
    "save_checkpoint_interval": 1000,
    "num_steps": 1000,
}


def main(url: str) -> None:
    """Register, and store batches."""
    answer = requests.post(f"{url}/register", json=REGISTRATION, timeout=10)
    answer.raise_for_status()
    sys.stdout.write(f"registered {answer.json()['uuid']}\n")
    sys.stdout.flush()
    while True:
        batch = requests.get(f"{url}/batch", timeout=10).json()["batch"]
        if batch is None:
            time.sleep(0.2)
            continue
        with Path("batches.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(batch) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
