"""The images' files lead to a system that runs: built and started line by line, without Docker.

PostgreSQL and Valkey are those of the wheels, with TCP ports as in their containers. Base images,
the network of the containers and GPUs are not covered.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest

from config.embedded.children import postgres_folder, unprivileged, valkey_server
from rolldeck.trainer import Trainer
from tests import processes
from tests.compose_services import ComposeServices
from tests.image_builder import Image, ImageBuilder, copy_context
from tests.server import ROOT, free_port, wait_until

pytestmark = [pytest.mark.system, pytest.mark.alone("installs the packages of both images")]

TOKEN = "a-bootstrap-token-of-the-images"
PASSWORD = "a-database-password"
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
        "buffer": {"batch_size": 2},
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
        context, folder, python=base_python(), arguments=torch_arguments(context, folder)
    )
    return {f"rolldeck-{target}": builder.build(target) for target in ("web", "worker")}


@pytest.fixture(scope="module")
def services(folder: Path, images: dict[str, Image]) -> Iterator[ComposeServices]:
    volume = folder / "volume"
    volume.mkdir()
    if os.geteuid() == 0:
        uid = images["rolldeck-web"].users["rolldeck"]
        os.chown(volume, uid, uid)
    web, ray = free_port(), free_port()
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


def base_python() -> str:
    """Return a Python that other users can read; a virtual environment below /root is not."""
    for found in ("/usr/local/bin/python3", "/usr/bin/python3"):
        test = [found, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
        if Path(found).exists() and subprocess.run(test, check=False).returncode == 0:
            return found
    return str(getattr(sys, "_base_executable", sys.executable))


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
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    begin(stack, folder / "postgres.log", *prefix, str(binaries / "postgres"), "-D", data, *words)
    server = f"postgresql://rolldeck:{PASSWORD}@127.0.0.1:{port}"

    def created() -> bool:
        try:
            with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE rolldeck")
        except psycopg.OperationalError:
            return False
        return True

    wait_until(created, seconds=60, what="PostgreSQL answers")
    return f"{server}/rolldeck"


def started_valkey(folder: Path, stack: ExitStack) -> str:
    port = free_port()
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    begin(stack, folder / "valkey.log", valkey_server(), *options)
    return f"redis://127.0.0.1:{port}/0"


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
    url = services.environment("web")["ROLLDECK_PUBLIC_URL"]
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
        lambda: "Ray runtime started" in log.read_text(), seconds=60, what="the Ray worker is up"
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

    assert page.status_code == 200
    assert "<script" in page.text, "the dashboard's build is in the image"
    assert guide.status_code == 200, "so is the documentation site"
    assert len(batch.items) == 2
    assert services.ended() == {}


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
    services.start("jobs", worker)

    wait_until(
        lambda: httpx.get(f"http://127.0.0.1:{port}/healthz/ready").status_code == 200,
        seconds=60,
        what="web answers",
    )
    ping = ["celery", "--app=config", "inspect", "ping", "--timeout=5"]
    wait_until(lambda: services.run("beat", ping) == 0, seconds=60, what="the worker answers")
