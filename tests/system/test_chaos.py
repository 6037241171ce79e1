"""A campaign of faults finds nothing in the server, and finds the faults put into its code."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolldeck.chaos.campaign import Campaign
from rolldeck.chaos.results import Result
from rolldeck.client import Client
from rolldeck.errors import ConflictError
from tests.chaos.faults import local_faults
from tests.chaos.mutations import MUTATIONS, Mutation, mutated_tree
from tests.chaos.server import ChaosServer
from tests.server import ROOT

pytestmark = [pytest.mark.system]
FEW_SECONDS = 60.0
MUTATED_SECONDS = 25.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder: sockets are below it."""
    made = Path(tempfile.mkdtemp(prefix="rdchaos"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def campaign(
    folder: Path, *, root: Path = ROOT, names: tuple[str, ...] | None, seconds: float, drain: float
) -> Result:
    server = ChaosServer(folder / "var", root=root)
    try:
        server.wait_until_ready()
        history = folder / "history"
        history.mkdir()
        run = Campaign(server.url, server.token, history, seed=1, rate=30)
        faults = local_faults(server) + run.network_faults()
        if names is not None:
            faults = [fault for fault in faults if fault.name in names]
        try:
            return run.run(faults, seconds=seconds, drain_seconds=drain)
        finally:
            run.close()
    finally:
        server.stop()


@pytest.mark.full("starts, loads and kills servers for minutes")
def test_a_short_campaign_breaks_no_rule(folder: Path) -> None:
    result = campaign(folder, names=None, seconds=FEW_SECONDS, drain=180)

    assert [v for v in result.violations if v.rule != "recovery_is_in_time"] == []
    assert len(result.injected) >= 4
    assert result.accepted > 500


@pytest.mark.full("starts a server")
def test_a_campaign_deletes_only_runs_that_it_created(folder: Path) -> None:
    server = ChaosServer(folder / "var")
    try:
        server.wait_until_ready()
        with Client(server.url, server.token) as client:
            client.runs.create("chaos-1-library", kind="outside")
            run = Campaign(server.url, server.token, folder, seed=1, rate=30)

            with pytest.raises(ConflictError):
                run.run([], seconds=1)
            run.delete_runs()
            run.close()

            assert [each.name for each in client.runs.list()] == ["chaos-1-library"]
    finally:
        server.stop()


@pytest.mark.alone("starts and loads 25 servers, each with a fault")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_in_the_code_is_found(folder: Path, mutation: Mutation) -> None:
    root = mutated_tree(folder, mutation)

    result = campaign(folder, root=root, names=mutation.faults, seconds=MUTATED_SECONDS, drain=15)

    broken = {violation.rule for violation in result.violations}
    assert broken - {"recovery_is_in_time", "every_run_is_drained"}, result
