"""The images' files lead to a system that runs: built and started line by line, without Docker.

PostgreSQL and Valkey are those of the wheels, with TCP ports as in their containers. Base images,
the network of the containers and GPUs are not covered.
"""

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import psutil
import psycopg
import pytest
import yaml

from config.embedded import parts
from config.embedded.children import postgres_folder, unprivileged, valkey_server
from rolldeck.trainer import Trainer
from rollouts.fleet import ray_internals
from tests import processes
from tests.compose_services import ComposeServices, interpolated
from tests.image_builder import Image, ImageBuilder, copy_context
from tests.server import ROOT, free_port, wait_until

logger = logging.getLogger(__name__)
pytestmark = [pytest.mark.system, pytest.mark.alone("installs the packages of both images")]

TOKEN = "a-bootstrap-token-of-the-images"
PASSWORD = "a database:p@ss/word#1%?"
# Imports take long on a loaded machine; test_recovery.py has the limit of 30 s.
RECOVERS_WITHIN_SECONDS = 90.0
CPU_LOCK = "requirements/worker-cpu.txt"
CUDA_PACKAGES = re.compile(r"(nvidia-(?!ml-py)|cuda-|triton==)")
RUN = {
    "name": "images",
    "kind": "fleet",
    "start": True,
    "config": {
        "environment": {"spec": "gymnasium:CartPole-v1"},
        "policy": {"hidden_sizes": [8]},
        "fleet": {
            "num_workers": 1,
            "envs_per_worker": 2,
            "inference_batch_size": 2,
            "fragment_length": 16,
        },
        # The trainer publishes one version: by default only two batches would be sampled with it.
        "buffer": {"batch_size": 2, "max_staleness": 1000},
    },
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short folder that the images' user can read."""
    made = Path(tempfile.mkdtemp(prefix="rdimg"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def images(folder: Path) -> dict[str, Image]:
    context = folder / "context"
    copy_context(ROOT, context)
    builder = ImageBuilder(
        context, folder, python=base_python(folder), arguments=torch_arguments(context, folder)
    )
    built = {f"rolldeck-{target}": builder.build(target) for target in ("web", "worker")}
    if (folder / "python").is_dir():  # its library is elsewhere, where only root may read
        for image in built.values():
            image.environment["LD_LIBRARY_PATH"] = str(folder / "python" / "lib")
    return built


@pytest.fixture(scope="module")
def services(folder: Path, images: dict[str, Image]) -> Iterator[ComposeServices]:
    volume = folder / "volume"
    volume.mkdir()
    if os.geteuid() == 0:
        uid = images["rolldeck-web"].users["rolldeck"]
        os.chown(volume, uid, uid)
    web, ray = free_port(), parts.free_ray_port()
    with ExitStack() as stack:
        variables = {
            "POSTGRES_PASSWORD": PASSWORD,
            "ROLLDECK_SECRET_KEY": "k" * 64,
            "RAY_AUTH_TOKEN": "5" * 64,
            "ROLLDECK_BOOTSTRAP_TOKEN": TOKEN,
            "DATABASE_URL": started_postgres(folder, stack),
            "REDIS_URL": started_valkey(folder, stack),
        }
        made = ComposeServices(
            ROOT / "docker-compose.yml",
            images=images,
            variables=variables,
            replaced={
                "ray-head:6379": f"127.0.0.1:{ray}",
                "ray-head:6380": f"127.0.0.1:{ray + 1}",
                "--port=6379": f"--port={ray}",
                "0.0.0.0:8000": f"127.0.0.1:{web}",
                "127.0.0.1:8000": f"127.0.0.1:{web}",
                "web:8000": f"127.0.0.1:{web}",
                "/var/lib/rolldeck": str(volume),
                "/tmp/beat-schedule": str(volume / "beat-schedule"),  # noqa: S108 of the compose file
            },
            folder=folder,
        )
        stack.callback(made.stop)
        assert made.run("prepare") == 0, made.log_path("prepare").read_text()[-3000:]
        yield made


def base_python(folder: Path) -> str:
    """Return a Python that other users can read: of this machine, or a copy of the tests' own."""
    for found in ("/usr/local/bin/python3", "/usr/bin/python3"):
        test = [found, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11, 5))"]
        if Path(found).exists() and subprocess.run(test, check=False).returncode == 0:
            return found
    copy = folder / "python"
    left_out = shutil.ignore_patterns("__pycache__", "site-packages", "test")
    shutil.copytree(sys.base_prefix, copy, symlinks=True, ignore=left_out)
    return str(copy / "bin" / f"python3.{sys.version_info.minor}")


def torch_arguments(context: Path, folder: Path) -> dict[str, str]:
    """Return build arguments for the CPU build of torch, if pip's configuration finds one.

    The lock holds the CUDA build, of several gigabytes. As docs/howto/own-servers.md describes for
    another build, the arguments name a lock of its own.
    """
    lock = (context / "requirements/worker.txt").read_text()
    version = re.findall(r"^torch==(\S+)", lock, re.MULTILINE)[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, f"torch=={version}", "-d", str(folder / "torch")], check=True)
    (wheel,) = (folder / "torch").iterdir()
    if "+cpu" not in wheel.name:
        return {}
    (context / CPU_LOCK).write_text(cpu_lock(lock, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    return {"WORKER_REQUIREMENTS": CPU_LOCK}


def cpu_lock(lock: str, torch_hash: str) -> str:
    """Return the lock with another build of torch, without the packages of CUDA."""
    blocks = re.split(r"\n(?=\S)", lock.strip())
    kept = [block for block in blocks if not CUDA_PACKAGES.match(block)]
    assert len(kept) < len(blocks) - 10
    replaced = [
        f"{block.split()[0]} \\\n    --hash=sha256:{torch_hash}"
        if block.startswith("torch==")
        else block
        for block in kept
    ]
    return "\n".join(replaced) + "\n"


def started_postgres(folder: Path, stack: ExitStack) -> str:
    """Start PostgreSQL on TCP with a password, and return its URL."""
    data, port = folder / "postgres", free_port()
    data.mkdir(mode=0o700)
    password = folder / "postgres.password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    prefix = unprivileged((data,))
    binaries = postgres_folder()
    initialize = [*prefix, str(binaries / "initdb"), f"--pgdata={data}", "--username=rolldeck"]
    initialize += [f"--pwfile={password}", "--auth=scram-sha-256"]
    initialize += ["--locale=C.UTF-8", "--encoding=UTF8"]
    subprocess.run(initialize, check=True, capture_output=True)
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    words = command_of("postgres")[1:]
    words += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    begin(stack, folder / "postgres.log", *prefix, str(binaries / "postgres"), "-D", data, *words)
    server = f"postgresql://rolldeck@127.0.0.1:{port}"

    def created() -> bool:
        try:
            with psycopg.connect(
                f"{server}/postgres", password=PASSWORD, autocommit=True
            ) as connection:
                connection.execute("CREATE DATABASE rolldeck")
        except psycopg.OperationalError:
            return False
        return True

    wait_until(created, seconds=60, what="PostgreSQL answers")
    return f"{server}/rolldeck"


def started_valkey(folder: Path, stack: ExitStack) -> str:
    port = free_port()
    options = [*command_of("valkey")[1:], "--bind", "127.0.0.1", "--port", str(port)]
    begin(stack, folder / "valkey.log", valkey_server(), *options)
    return f"redis://127.0.0.1:{port}/0"


def command_of(service: str) -> list[str]:
    """Return the command of a service without an image of ours."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return [interpolated(word, {}) for word in services[service]["command"]]


def begin(stack: ExitStack, log_path: Path, *command: Any) -> None:
    with log_path.open("wb") as log:
        process = processes.start([str(word) for word in command], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def weights() -> dict[str, Any]:
    """Return weights of an MLP with 8 hidden units for CartPole."""
    tensors = {}
    for net, outputs in (("policy_net", 2), ("value_net", 1)):
        for layer, (size, before) in {0: (8, 4), 2: (outputs, 8)}.items():
            tensors[f"{net}.{layer}.weight"] = np.full((size, before), 0.01, np.float32)
            tensors[f"{net}.{layer}.bias"] = np.zeros(size, np.float32)
    return tensors


def test_the_services_of_the_images_run_a_fleet(services: ComposeServices) -> None:
    url = services.environment("web")["ROLLDECK_INTERNAL_URL"]
    address = services.environment("jobs")["RAY_ADDRESS"]

    services.start("web")
    services.start("beat")
    services.start("ray-head")
    wait_until(lambda: services.is_healthy("web"), seconds=60, what="web is healthy")
    up = ["ray", "health-check", f"--address={address}"]
    wait_until(lambda: services.run("ray-head", up) == 0, seconds=120, what="Ray is up")
    services.start("ray-worker")
    # Without a filesystem of their own, two nodes that start together choose the same sockets.
    log = services.log_path("ray-worker")
    wait_until(
        lambda: ray_internals.STARTED in log.read_text(), seconds=60, what="the Ray worker is up"
    )
    services.start("jobs")

    page = httpx.get(f"{url}/login")
    guide = httpx.get(f"{url}/guide/start/install")
    with Trainer(url, RUN["name"], token=TOKEN) as trainer:
        created = httpx.post(
            f"{url}/api/v1/runs", json=RUN, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
        )
        assert created.is_success, created.text
        trainer.register()
        trainer.publish_weights(weights(), step=0)
        batch = wait_until(
            lambda: trainer.next_batch(wait_seconds=10) or services.ended(),
            seconds=300,
            what="a batch of the fleet",
        )
        assert not isinstance(batch, dict), batch
        assert len(batch.items) == 2
        trainer.ack(batch)
        for service in ("web", "jobs", "beat", "ray-head", "ray-worker"):
            wait_until(
                lambda service=service: services.is_healthy(service),
                seconds=90,
                what=f"{service} is healthy",
            )
        assert services.ended() == {}

        before = state_of(url)
        kill_head(services)
        seconds = recovered(services, trainer, lambda: has_new_data(state_of(url), before))
    logger.info("fragments of a new fleet after %.1f s", seconds)

    assert page.status_code == 200
    assert "<script" in page.text, "the dashboard's build is in the image"
    assert guide.status_code == 200, "so is the documentation site"
    assert services.ended() == {}


class RunState(NamedTuple):
    """State of the run and its fleet."""

    attempt: int
    is_running: bool
    accepted: int


def state_of(url: str) -> RunState:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    run = f"{url}/api/v1/runs/{RUN['name']}"
    fleet = httpx.get(f"{run}/fleet", headers=headers, timeout=30).json()
    ledger = httpx.get(f"{run}/ledger", headers=headers, timeout=30).json()
    accepted = int(ledger["fragments"]["accepted"])
    return RunState(fleet["attempt"], fleet["observed"] == "running", accepted)


def has_new_data(now: RunState, before: RunState) -> bool:
    """Return whether a new fleet has sent more than was under way before."""
    is_new = now.is_running and now.attempt > before.attempt
    return is_new and now.accepted > before.accepted + 16


def recovered(services: ComposeServices, trainer: Trainer, holds: Callable[[], bool]) -> float:
    """Return the seconds until `holds`, with services started again and batches acknowledged."""
    began = time.monotonic()

    def does_hold() -> bool:
        # Ray starts no head beside a node of its address. Containers do not see each other.
        if "ray-worker" in services.ended() or "ray-head" not in services.ended():
            services.keep_running()
        if batch := trainer.next_batch(wait_seconds=0.2):
            trainer.ack(batch)
        return holds()

    wait_until(does_hold, seconds=RECOVERS_WITHIN_SECONDS, what="a new fleet")
    return time.monotonic() - began


def kill_head(services: ComposeServices) -> None:
    """Kill Ray's server of the cluster with SIGKILL, and wait for the end of its container."""
    [server] = [
        process
        for process in psutil.Process(services.pid("ray-head")).children(recursive=True)
        if process.name() == "gcs_server"
    ]
    server.kill()
    wait_until(lambda: "ray-head" in services.ended(), seconds=15, what="the head has ended")


def test_the_worker_image_has_the_packages_of_its_extras(services: ComposeServices) -> None:
    code = "import torch, ray, pyarrow, pynvml, av, pygame, starlette, tokenizers, storages"

    assert services.run("ray-worker", ["python", "-c", code]) == 0
    assert services.run("ray-worker", ["rolldeck", "inference", "--help"]) == 0
    assert services.run("web", ["python", "-c", "import torch"]) != 0
    assert services.run("web", ["python", "-c", "import ray"]) != 0


def test_the_commands_of_the_images_themselves_start(
    services: ComposeServices, images: dict[str, Image]
) -> None:
    web, worker = images["rolldeck-web"].command, images["rolldeck-worker"].command
    port = free_port()

    assert web[:3] == ["python", "-m", "config.web"]
    services.start("web", [word.replace("0.0.0.0:8000", f"127.0.0.1:{port}") for word in web])
    address = services.environment("jobs")["RAY_ADDRESS"]
    services.start("ray-worker", [word.replace("ray-head:6379", address) for word in worker])
    services.start("jobs")

    wait_until(
        lambda: httpx.get(f"http://127.0.0.1:{port}/healthz/ready").status_code == 200,
        seconds=60,
        what="web answers",
    )
    ping = ["celery", "--app=config", "inspect", "ping", "--timeout=5"]
    wait_until(lambda: services.run("beat", ping) == 0, seconds=60, what="the worker answers")
