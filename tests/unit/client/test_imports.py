"""The client runs where neither the platform nor a learning framework is installed."""

import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[3] / "client"
BLOCKING = """
import sys
for name in ["django", "rest_framework", "celery", "channels", "torch", "ray", "gymnasium",
             "runs", "buffer", "rollouts", "config", "frontend",
             "opentelemetry", "wandb", "mlflow", "trackio", "tensorboard"]:
    sys.modules[name] = None  # importing it raises ImportError
import rolldeck.batches, rolldeck.cli, rolldeck.handler, rolldeck.http, rolldeck.replay
import rolldeck.async_trainer, rolldeck.prefetch
import rolldeck.chunks, rolldeck.popart, rolldeck.returns
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
