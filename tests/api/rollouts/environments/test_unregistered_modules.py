"""No spec makes the platform or a worker import a module that is not registered."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from rollouts.fleet.environments import loader as environments
from rollouts.fleet.groups.environment_loader import load_environment
from rollouts.fleet.groups.errors import LessonFailed
from runs.lifecycle.models import Run
from tests.lesson_factories import language, lesson

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("gateway")]

MODULE: Final = "poisoned_by_a_spec"
POISON: Final = """
import os, pathlib
pathlib.Path(os.environ["POISON_NOTE"]).write_text(str(os.getpid()))
class Env: ...
def load_environment(**_): ...
"""
# Possible specs of stepping environments.
STEPPED: Final = (
    f"module:{MODULE}:Env",
    f"gymnasium:{MODULE}:Env-v0",
    f"gymnasium:{MODULE}/Env-v0",
    f"minestudio:{MODULE}",
    f"rolldeck:{MODULE}",
    f"verifiers:{MODULE}",
    f"{MODULE}:Env",
)
LESSONS: Final = (
    f"verifiers:{MODULE}",
    f"verifiers:owner/{MODULE}",
    f"module:{MODULE}:Env",
    f"task:{MODULE}",
    f"gymnasium:{MODULE}:Env-v0",
    f"{MODULE}:Env",
)
CONFIGS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    **{
        f"environment {spec}": ({"environment": {"spec": spec}}, "environment.spec")
        for spec in STEPPED
    },
    **{
        f"lesson {spec}": (
            language({"a": lesson(), "b": lesson(spec=spec, kwargs={})}),
            "language.lessons.b.spec",
        )
        for spec in LESSONS
    },
    "strategy": (language({"a": lesson()}, strategy=f"{MODULE}:Env"), "language.strategy"),
    "policy": ({"policy": {"kind": f"module:{MODULE}:Env"}}, "policy.kind"),
    "inference": (
        language({"a": lesson()}, inference=f"module:{MODULE}:Env"),
        "language.inference",
    ),
}


@pytest.fixture(autouse=True)
def _quarantine_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{MODULE}.py").write_text(POISON)
    note = tmp_path / "imported"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("POISON_NOTE", str(note))
    # Child processes of checks use it too, so that their imports are recorded as well.
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_VARIABLES", "POISON_NOTE")
    yield
    assert MODULE not in sys.modules
    assert not note.exists(), "a process has imported the module"


@pytest.mark.parametrize(("config", "field"), CONFIGS.values(), ids=CONFIGS)
def test_a_run_with_an_unregistered_module_is_refused(
    operator: APIClient, config: dict[str, Any], field: str
) -> None:
    response = operator.post("/api/v1/runs", {"name": "alpha", "config": config}, format="json")

    assert response.status_code == 400, response.content
    assert response.json()["errors"][0]["field"].startswith(f"config.{field}")
    assert not Run.objects.exists()


@pytest.mark.parametrize(("config", "field"), CONFIGS.values(), ids=CONFIGS)
def test_a_check_of_an_unregistered_module_is_refused(
    operator: APIClient, config: dict[str, Any], field: str
) -> None:
    response = operator.post(
        "/api/v1/run-checks", {"name": "alpha", "config": config}, format="json"
    )

    assert response.status_code == 200, response.content
    fields = [row["field"] for row in response.json()["findings"] if row["level"] == "error"]
    assert any(name.startswith(field) for name in fields), response.json()


@pytest.mark.parametrize(("config", "field"), CONFIGS.values(), ids=CONFIGS)
def test_a_preset_with_an_unregistered_module_creates_no_run(
    operator: APIClient, config: dict[str, Any], field: str
) -> None:
    preset = {"name": "poisoned", "title": "Poisoned", "config": config}
    if operator.post("/api/v1/presets", preset, format="json").status_code < 400:
        run = {"name": "alpha", "preset": "poisoned"}
        assert operator.post("/api/v1/runs", run, format="json").status_code == 400
    assert not Run.objects.exists()


@pytest.mark.parametrize("spec", [*STEPPED, *LESSONS])
def test_an_unregistered_module_is_not_probed(operator: APIClient, spec: str) -> None:
    response = operator.post("/api/v1/environments/probes", {"spec": spec}, format="json")

    assert response.status_code in {400, 404}, response.content


@pytest.mark.parametrize("spec", [*STEPPED, *LESSONS])
def test_a_worker_builds_no_unregistered_environment(spec: str) -> None:
    with pytest.raises(Exception, match=r"regist|not found|known:"):
        environments.make(spec, {})


@pytest.mark.parametrize("spec", [*STEPPED, *LESSONS])
def test_a_worker_builds_no_unregistered_lesson(spec: str) -> None:
    with pytest.raises(LessonFailed) as caught:
        load_environment(spec, {})

    assert caught.value.kind == "environment_unknown"


def test_a_setting_of_the_server_registers_nothing_in_workers(settings: Settings) -> None:
    """The server's setting alone must not make a worker import anything."""
    settings.ROLLDECK_ENVIRONMENTS = [f"verifiers:{MODULE}"]
    with pytest.raises(LessonFailed, match="not registered on"):
        load_environment(f"verifiers:{MODULE}", {})


def test_a_registered_lesson_is_accepted(operator: APIClient, settings: Settings) -> None:
    settings.ROLLDECK_ENVIRONMENTS = [f"verifiers:{MODULE}"]
    config = language({"a": lesson(spec=f"verifiers:{MODULE}", kwargs={})})
    response = operator.post("/api/v1/runs", {"name": "alpha", "config": config}, format="json")

    assert response.status_code == 201, response.content


def test_the_test_module_records_its_import(tmp_path: Path) -> None:
    note = tmp_path / "elsewhere"
    subprocess.run(
        [sys.executable, "-c", f"import {MODULE}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "POISON_NOTE": str(note)},
        check=True,
    )

    assert note.exists()
