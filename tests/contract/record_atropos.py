"""Record the original Atropos server's responses, as the reference for our server.

Needs a separate virtual environment, because the package has many dependencies:

    python -m venv atropos && atropos/bin/pip install --no-deps atroposlib==0.4.0
    atropos/bin/pip install fastapi uvicorn pydantic
    atropos/bin/python tests/contract/record_atropos.py > tests/contract/atropos_0_4_0.json
"""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

SERVER = (
    "import uvicorn; from atroposlib.api.server import app; "
    "uvicorn.run(app, port={port}, log_level='error')"
)
Step = tuple[str, str, Any]


def group(mark: int, sequences: int = 2, **fields: Any) -> dict[str, Any]:
    rows = [[mark, 1, 2] for _ in range(sequences)]
    return {"tokens": rows, "masks": rows, "scores": [0.5] * sequences, **fields}


REGISTRATION = {
    "wandb_group": "a group",
    "wandb_project": "a project",
    "batch_size": 4,
    "max_token_len": 64,
    "checkpoint_dir": "checkpoints",
    "save_checkpoint_interval": 10,
    "starting_step": 3,
    "num_steps": 100,
}


def environment(name: str = "math", **fields: Any) -> dict[str, Any]:
    plain = {"max_token_length": 64, "desired_name": name, "weight": 1.0, "group_size": 2}
    return plain | fields


FULL = group(
    5,
    advantages=[[0.5, 0.25, 1.0]] * 2,
    ref_logprobs=[[-0.5, -0.25, -1.0]] * 2,
    messages=[[{"role": "user", "content": "hi", "unknown": {"a": [1, None]}}]] * 2,
    generation_params={"temperature": 0.7},
    inference_logprobs=[[-1.5, -2.5, -3.5]] * 2,
    overrides=[{"a": 1}, {}],
    group_overrides={"sft": True},
    images=[None, "data"],
    distill_token_ids=[[[1, 2]] * 3] * 2,
    distill_logprobs=[[[-0.5, -0.25]] * 3] * 2,
)

STORIES: dict[str, list[Step]] = {
    "before registration": [
        ("GET", "/", None),
        ("GET", "/wandb_info", None),
        ("GET", "/info", None),
        ("GET", "/status", None),
        ("GET", "/batch", None),
        ("GET", "/latest_example", None),
        ("POST", "/register-env", environment()),
        ("POST", "/disconnect-env", {"env_id": 0}),
    ],
    "registration": [
        ("POST", "/register", REGISTRATION),
        ("GET", "/wandb_info", None),
        ("GET", "/info", None),
        ("GET", "/status", None),
        ("POST", "/register-env", environment()),
        ("GET", "/batch", None),
        ("POST", "/register-env", environment()),
        ("POST", "/register-env", environment()),
        ("POST", "/register-env", environment("code", group_size=4, min_batch_allocation=0.5)),
        ("POST", "/register", REGISTRATION | {"batch_size": 8}),
        ("GET", "/info", None),
        ("POST", "/disconnect-env", {"env_id": 2}),
        ("POST", "/disconnect-env", {"env_id": 9}),
    ],
    "one batch": [
        ("POST", "/register", REGISTRATION),
        ("POST", "/scored_data", group(1)),
        ("GET", "/status", None),
        ("GET", "/batch", None),
        ("POST", "/scored_data", FULL),
        ("GET", "/status", None),
        ("GET", "/latest_example", None),
        ("GET", "/batch", None),
        ("GET", "/status", None),
        ("GET", "/batch", None),
    ],
    "several batches at once": [
        ("POST", "/register", REGISTRATION),
        ("POST", "/scored_data_list", [group(mark) for mark in range(6)]),
        ("GET", "/status", None),
        ("GET", "/batch", None),
        ("GET", "/status", None),
        ("GET", "/batch", None),
        ("GET", "/batch", None),
        ("GET", "/batch", None),
        ("GET", "/status", None),
    ],
    "leniencies": [
        ("POST", "/register", REGISTRATION | {"batch_size": "1"}),
        ("GET", "/info", None),
        ("POST", "/scored_data", {"tokens": [["1", 2.0]], "masks": [[1, 1]], "scores": ["1"]}),
        ("GET", "/batch", None),
        ("POST", "/scored_data", {"tokens": [[1]], "masks": [[1]], "scores": [1]}),
        ("GET", "/batch", None),
        ("POST", "/scored_data", {"tokens": [[1]], "masks": [[1]], "scores": [1.0], "extra": 7}),
        ("GET", "/batch", None),
    ],
    "refusals": [
        ("POST", "/register", REGISTRATION),
        ("POST", "/register", {}),
        ("POST", "/register-env", {"weight": "x"}),
        ("POST", "/scored_data", {"masks": [[1]], "scores": [1.0]}),
        ("POST", "/scored_data", {"tokens": [["a"]], "masks": [[1]], "scores": [1.0]}),
        ("POST", "/scored_data", {"tokens": [[1.5]], "masks": [[1]], "scores": [1.0]}),
        ("POST", "/scored_data", group(1, messages=[[{"role": "user"}]])),
        ("POST", "/scored_data_list", [group(1), {"tokens": []}]),
        ("POST", "/scored_data_list", group(1)),
        ("POST", "/scored_data", [group(1)]),
        ("POST", "/disconnect-env", {}),
        ("GET", "/status", None),
    ],
    "mixed sizes": [
        ("POST", "/register", REGISTRATION),
        ("GET", "/batch", None),
        ("POST", "/register-env", environment(group_size=4)),
        ("POST", "/scored_data", group(1, 3, env_id=0)),
        ("POST", "/scored_data", group(2, 2, env_id=0)),
        ("GET", "/status", None),
        ("POST", "/scored_data", group(3, 2, env_id=0)),
        ("GET", "/status", None),
        ("GET", "/latest_example", None),
        ("POST", "/scored_data_list", [group(4, 1, env_id=0), group(5, 4, env_id=0)]),
        ("GET", "/status", None),
    ],
    "status of environments": [
        ("POST", "/register", REGISTRATION | {"batch_size": 8}),
        ("GET", "/batch", None),
        ("POST", "/register-env", environment(min_batch_allocation=0.25)),
        ("POST", "/register-env", environment("code", weight=3.0)),
        ("POST", "/register-env", environment("long", weight=0.0, max_token_length=640)),
        ("GET", "/status-env", {"env_id": 0}),
        ("POST", "/scored_data_list", [group(1, env_id=0), group(2, env_id=1)]),
        ("GET", "/status-env", {"env_id": 0}),
        ("GET", "/status-env", {"env_id": 1}),
        ("GET", "/status-env", {"env_id": 2}),
        ("POST", "/scored_data", group(3, 2)),
        ("GET", "/status-env", {"env_id": 1}),
        ("POST", "/disconnect-env", {"env_id": 1}),
        ("GET", "/status-env", {"env_id": 0}),
    ],
    "reset": [
        ("POST", "/register", REGISTRATION),
        ("POST", "/scored_data", group(1)),
        ("GET", "/reset_data", None),
        ("GET", "/status", None),
        ("GET", "/wandb_info", None),
        ("GET", "/info", None),
    ],
}


def send_request(base: str, method: str, path: str, content: Any) -> dict[str, Any]:
    """Return a response: its status, and the JSON (or text) of the body."""
    request = urllib.request.Request(base + path, method=method)  # noqa: S310 our own server
    if content is not None:
        request.data = json.dumps(content).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            status, raw = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, raw = error.code, error.read()
    try:
        return {"status": status, "answer": json.loads(raw)}
    except ValueError:
        return {"status": status, "answer": raw.decode()}


def record(story: list[Step]) -> list[dict[str, Any]]:
    """Send one story to a new server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER.format(port=port)])
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                send_request(base, "GET", "/", None)
                break
            except OSError:
                time.sleep(0.1)
        return [
            {"method": method, "path": path, "content": content}
            | send_request(base, method, path, content)
            for method, path, content in story
        ]
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    recorded = {name: record(story) for name, story in STORIES.items()}
    json.dump(recorded, sys.stdout, indent=1)
