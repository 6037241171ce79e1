"""Processes with environment code inherit an allow-list of variables."""

from pathlib import Path

import pytest

from config.embedded import parts
from rollouts.fleet import ray_internals
from rollouts.fleet.process import child_environment

SECRETS = {
    "ROLLDECK_SECRET_KEY": "s1",
    "ROLLDECK_BOOTSTRAP_TOKEN": "s2",
    "ROLLDECK_SMTP_URL": "s3",
    "DATABASE_URL": "s4",
    "REDIS_URL": "s5",
    "AWS_SECRET_ACCESS_KEY": "s6",
    "HF_TOKEN": "s7",
    "POSTGRES_PASSWORD": "s8",
    "NVIDIA_API_KEY": "s9",
    "CUDA_LICENCE_KEY": "s10",
    "PYTHON_KEYRING_PASSWORD": "s11",
}
NEEDED = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "LC_ALL": "C",
    "PYTHONPATH": "/app",
    "CUDA_VISIBLE_DEVICES": "0",
    "MUJOCO_GL": "egl",
    "ROLLDECK_ENVIRONMENTS": "module:lab:Maze",
    "ROLLDECK_ENVIRONMENT_MODULES": "lab",
    "ROLLDECK_DATASETS": "/data",
    "ROLLDECK_REWARDS": "module:lab:reward",
}
FLEET = {
    "ROLLDECK_CHECKPOINTS": "/models",
    "ROLLDECK_INFERENCE_SERVERS": "{}",
    "ROLLDECK_TOOL_SERVERS": "{}",
}
RAY = {"RAY_AUTH_MODE": "token", "RAY_health_check_period_ms": "1000"}


def test_secrets_are_left_out() -> None:
    everything = {**SECRETS, **NEEDED, **FLEET, **RAY, "RAY_AUTH_TOKEN": "t"}

    assert child_environment.for_environments(everything) == NEEDED
    assert child_environment.for_fleets(everything) == {**NEEDED, **FLEET}


def test_an_administrator_adds_variables_by_name() -> None:
    given = {child_environment.MORE: "HF_TOKEN, LAB_URL,,MISSING", "LAB_URL": "x", **SECRETS}

    assert child_environment.for_environments(given) == {
        child_environment.MORE: given[child_environment.MORE],
        "LAB_URL": "x",
        "HF_TOKEN": "s7",
    }


def test_the_ray_head_gets_a_path_instead_of_the_token(tmp_path: Path) -> None:
    command = parts.ray_head_command(
        address="127.0.0.1:6379",
        cpus=1,
        temp_folder=tmp_path,
        environment={**SECRETS, **NEEDED, **RAY, "RAY_AUTH_TOKEN": "t", "RAY_ADDRESS": "a:1"},
        token_file=Path("/var/ray_token"),
    )

    assert command.env == {
        **NEEDED,
        **RAY,
        **ray_internals.ON_LOOPBACK,
        "RAY_AUTH_TOKEN_PATH": "/var/ray_token",
    }


@pytest.mark.parametrize(
    ("here", "given", "names"),
    [
        ("", {"A": "1"}, "A"),
        ("B", {"A": "1"}, "A,B"),
        ("", {"A": "1", child_environment.MORE: "C"}, "A,C"),
    ],
)
def test_variables_of_the_runtime_env_reach_environments(
    here: str, given: dict[str, str], names: str
) -> None:
    here_set = {child_environment.MORE: here}
    variables = child_environment.with_names({"env_vars": given, "pip": ["x"]}, here_set)

    assert variables["pip"] == ["x"]
    assert variables["env_vars"] == {**given, child_environment.MORE: names}


def test_a_runtime_env_without_variables_is_unchanged() -> None:
    more = {child_environment.MORE: "A"}

    assert child_environment.with_names({}, more) == {}
    assert child_environment.with_names({"pip": ["x"]}, more) == {"pip": ["x"]}
