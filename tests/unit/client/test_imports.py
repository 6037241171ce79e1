"""The client runs where neither the platform nor a learning framework is installed."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CLIENT = Path(__file__).parents[3] / "client"
OPTIONAL = ("torch", "pyarrow", "simdjson")
"""Packages of the client's extras, which `torch_tensors`, `sequences` and `json_groups` import."""
BLOCKING = """
import sys
for name in ["django", "rest_framework", "celery", "channels", "torch", "ray", "gymnasium",
             "runs", "buffer", "rollouts", "config", "frontend",
             "opentelemetry", "simdjson", "wandb", "mlflow", "trackio", "tensorboard"]:
    sys.modules[name] = None  # importing it raises ImportError
import rolldeck.batches, rolldeck.cli, rolldeck.handler, rolldeck.http, rolldeck.replay
import rolldeck.async_trainer
import rolldeck.training.chunks, rolldeck.training.popart, rolldeck.training.returns
import rolldeck.safetensors, rolldeck.trainer, rolldeck.wire
import rolldeck.tracing, rolldeck.trackers.environment, rolldeck.trackers.following
import rolldeck.trackers.mlflow_tracker, rolldeck.trackers.tensorboard_tracker
import rolldeck.trackers.trackio_tracker, rolldeck.trackers.wandb_tracker
"""


def test_no_module_of_the_client_needs_django_torch_or_ray() -> None:
    command = [sys.executable, "-W", "error", "-c", BLOCKING]
    done = subprocess.run(
        command,
        cwd="/",
        env={"PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_client_declares_each_package_that_its_import_needs() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    declared = {re.split("[<>=.]", name)[0] for name in project["dependencies"]}

    imported = {
        root
        for folder in ("rolldeck", "rolldeck/commands", "rolldeck/training")
        for file in (CLIENT / folder).glob("*.py")
        for node in ast.parse(file.read_text()).body
        for root in roots_of(node)
    }
    ours = {*sys.stdlib_module_names, "rolldeck", *OPTIONAL}

    assert imported - ours == declared


def roots_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]]
    return [name.name.split(".")[0] for name in getattr(node, "names", [])]
