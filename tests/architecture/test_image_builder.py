"""The builder of tests/system/test_images.py follows a Dockerfile as Docker does."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.compose_services import ComposeServices, interpolated
from tests.image_builder import Image, ImageBuilder, copy_context, instructions, is_ignored
from tests.processes import wait_until_gone

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = """# comment
ARG NODE_IMAGE=node:22
ARG PYTHON_IMAGE=python:3.11

FROM ${NODE_IMAGE} AS built
WORKDIR /src
COPY one.txt two.txt ./
RUN cat one.txt two.txt \\
    > both.txt

FROM ${PYTHON_IMAGE} AS base
ENV PLACE=/var/lib/thing \\
    WORD=plain
WORKDIR /app
COPY folder folder
COPY folder/*.py scripts/
COPY --from=built /src/both.txt both.txt

FROM base AS final
ARG EXTRA=none
RUN python -c "import os; open('env.txt', 'w').write(os.environ['EXTRA'] + os.environ['WORD'])"
CMD ["python", "-c", "pass"]
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "folder" / "inner").mkdir(parents=True)
    for name, text in {
        "Dockerfile": DOCKERFILE,
        ".dockerignore": ".env\n**/__pycache__\nfolder/secret\n*.egg-info\n",
        ".env": "SECRET=1",
        "one.txt": "1",
        "two.txt": "2",
        "folder/code.py": "",
        "folder/note.md": "",
        "folder/secret": "",
        "folder/inner/.env": "kept: only the file at the top is named",
    }.items():
        (made / name).write_text(text)
    target = tmp_path / "context"
    copy_context(made, target)
    return target


def build(context: Path, target: str, **arguments: str) -> Image:
    images = context.parent / "images"
    images.mkdir()
    return ImageBuilder(context, images, python=sys.executable, arguments=arguments).build(target)


def test_a_target_has_the_files_of_its_stages_and_no_ignored_ones(context: Path) -> None:
    image = build(context, "final")
    app = image.path("")
    files = {path.relative_to(app).as_posix() for path in app.rglob("*") if path.is_file()}

    assert files == {
        *("both.txt", "env.txt", "folder/code.py", "folder/inner/.env", "folder/note.md"),
        "scripts/code.py",
    }
    assert (app / "both.txt").read_text() == "12"


def test_a_process_gets_env_and_a_build_step_also_its_arguments(context: Path) -> None:
    image = build(context, "final", EXTRA="given ")

    assert (image.path("env.txt")).read_text() == "given plain"
    assert image.environment["PLACE"] == str(image.folder / "var/lib/thing")
    assert "EXTRA" not in image.environment
    assert image.command == ["python", "-c", "pass"]
    assert image.workdir == "/app"


def test_a_failed_step_fails_with_its_output(context: Path) -> None:
    (context / "Dockerfile").write_text("FROM node:22 AS one\nRUN echo the reason; exit 3\n")

    with pytest.raises(AssertionError, match="the reason"):
        build(context, "one")


def test_unknown_instructions_and_missing_files_fail(context: Path) -> None:
    (context / "Dockerfile").write_text("FROM node:22 AS one\nVOLUME /data\n")
    with pytest.raises(AssertionError, match="VOLUME is not supported"):
        build(context, "one")

    (context / "Dockerfile").write_text("FROM node:22 AS two\nCOPY missing.txt .\n")
    with pytest.raises(AssertionError, match=re.escape("no file matches missing.txt")):
        ImageBuilder(context, context.parent, python=sys.executable, arguments={}).build("two")


@pytest.mark.parametrize(
    ("path", "is_left_out"),
    [("var", True), ("a/var", False), ("a/b/__pycache__", True), ("x.egg-info", True)],
)
def test_ignored_paths(path: str, is_left_out: bool) -> None:
    assert is_ignored(path, ["var", "**/__pycache__", "*.egg-info"]) is is_left_out


def test_the_project_s_own_dockerfile_has_only_supported_instructions() -> None:
    found = {one.keyword for one in instructions((ROOT / "Dockerfile").read_text())}

    assert found == {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "CMD"}


def test_compose_variables_have_defaults_and_required_ones() -> None:
    url = "${DATABASE_URL:-postgresql://${USER:?set it}@host/${NAME}}"

    assert interpolated(url, {"USER": "a"}) == "postgresql://a@host/"
    assert interpolated(url, {"USER": "a", "DATABASE_URL": "other"}) == "other"
    with pytest.raises(LookupError, match="USER: set it"):
        interpolated(url, {})


def test_a_service_runs_with_the_command_variables_and_network_of_this_machine(
    tmp_path: Path,
) -> None:
    command = ["python", "-c", "import os; print(os.environ['URL'], os.environ['MORE'])"]
    described = {
        "image": "one",
        "command": command,
        "environment": {"URL": "http://${HOST:-web}:8000", "UNSET": None},
        "env_file": [{"path": ".env.platform", "required": False}],
    }
    compose = tmp_path / "docker-compose.yml"
    compose.write_text(yaml.safe_dump({"services": {"it": described}}))
    image = Image(tmp_path, environment={"PATH": str(Path(sys.executable).parent)})
    services = ComposeServices(
        compose,
        images={"one": image},
        variables={},
        of_files={"MORE": "of .env.platform"},
        replaced={"web:8000": "127.0.0.1:9"},
        folder=tmp_path,
    )

    assert services.environment("it") == {"MORE": "of .env.platform", "URL": "http://127.0.0.1:9"}
    assert services.run("it") == 0
    assert services.log_path("it").read_text() == "http://127.0.0.1:9 of .env.platform\n"
    assert services.run("it", ["python", "-c", "raise SystemExit(3)"]) == 3


def test_a_remaining_process_of_a_service_ends_with_it(tmp_path: Path) -> None:
    compose = tmp_path / "docker-compose.yml"
    command = ["sh", "-c", "sleep 600 & echo $! > pid; exec sleep 600"]
    compose.write_text(yaml.safe_dump({"services": {"it": {"image": "one", "command": command}}}))
    image = Image(tmp_path, environment={"PATH": "/usr/bin:/bin"})
    services = ComposeServices(
        compose, images={"one": image}, variables={}, replaced={}, folder=tmp_path
    )
    services.start("it")
    try:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert services.ended() == {}
    finally:
        services.stop()

    wait_until_gone(int((tmp_path / "pid").read_text()))
