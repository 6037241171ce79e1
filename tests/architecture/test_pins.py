"""Images install only packages with hashes, and their base images can be pinned by digest."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.lock_files import name_of, pins

ROOT: Final = Path(__file__).resolve().parents[2]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE: Final = (ROOT / "Makefile").read_text()
EXTRAS: Final = {
    "web": ("embedded", "archive", "s3", "tracing"),
    "worker": (
        *("embedded", "fleet", "archive", "language", "prompts", "recording", "s3", "tracing"),
    ),
}


def lock(image: str) -> str:
    return (ROOT / "requirements" / f"{image}.txt").read_text()


@pytest.mark.parametrize("image", EXTRAS)
def test_the_lock_contains_the_requirements_of_the_project(image: str) -> None:
    optional = PROJECT["optional-dependencies"]
    required = [
        *PROJECT["dependencies"],
        *(requirement for extra in EXTRAS[image] for requirement in optional[extra]),
    ]

    # The images install the client from the checkout.
    missing = {name_of(requirement) for requirement in required} - set(pins(lock(image)))
    assert missing == {"rolldeck"}
    assert "hatchling" in pins(lock(image)), "the project itself is built with it"


def test_the_worker_image_has_every_extra() -> None:
    assert set(EXTRAS["worker"]) == set(PROJECT["optional-dependencies"])
    assert set(EXTRAS["web"]) < set(EXTRAS["worker"])


@pytest.mark.parametrize("image", EXTRAS)
def test_make_lock_writes_the_lock_with_the_extras_of_the_image(image: str) -> None:
    (line,) = re.findall(rf"@\$\(LOCK\) (.*) -o requirements/{image}\.txt", MAKEFILE)

    words = set(re.findall(r"\w+", line)) - {"extra", "addprefix"}
    assert words == set(EXTRAS[image])


def test_images_install_nothing_without_a_hash() -> None:
    installs = re.findall(r"pip install ([^\\\n]+)", DOCKERFILE)

    assert len(installs) == 5
    for words in installs:
        own = "--no-deps --no-build-isolation -e ./client -e ."
        assert "--require-hashes -r " in words or own in words
    assert "npm ci" in DOCKERFILE, "it checks the hashes of package-lock.json"


def test_every_base_image_can_be_given_with_its_digest() -> None:
    stages = set(re.findall(r" AS (\w+)$", DOCKERFILE, re.MULTILINE))
    used = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) - stages

    assert used == {"${NODE_IMAGE}", "${PYTHON_IMAGE}"}
    for service in COMPOSE["services"].values():
        if "build" in service:
            defaults = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", DOCKERFILE, re.MULTILINE))
            given = service["build"]["args"]
            assert {name: given[name] for name in defaults} == {
                name: f"${{{name}:-{image}}}" for name, image in defaults.items()
            }
        else:
            assert re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[\w/]+:\d+\}", service["image"])


def test_ray_is_tested_on_both_ends_of_its_range() -> None:
    (required,) = (
        re.findall(r"^ray>=([\d.]+),<([\d.]+)$", requirement)[0]
        for requirement in PROJECT["optional-dependencies"]["fleet"]
        if requirement.startswith("ray")
    )
    (oldest, newest) = re.findall(r"^RAY_VERSIONS := (\S+) (\S+)$", MAKEFILE, re.MULTILINE)[0]
    major, minor = map(int, newest.split(".")[:2])

    assert required == (oldest.removesuffix(".0"), f"{major}.{minor + 1}")
    assert pins((ROOT / "constraints.txt").read_text())["ray"] == newest
    client = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    assert f"ray[data]>={required[0]},<{required[1]}" in client["optional-dependencies"]["ray"]
