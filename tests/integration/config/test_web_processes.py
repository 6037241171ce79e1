"""Several web processes of one server."""

import signal
from pathlib import Path

import pytest

from benchmarks.processes import descendants
from tests.processes import wait_until_gone
from tests.waiting import eventually
from tests.web_process import web_process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_its_server(tmp_path: Path, end: signal.Signals) -> None:
    with web_process(tmp_path / "web.log", module=("config.web", "{fd}", "2")) as web:

        def serving() -> list[int]:
            found = descendants(web.process.pid).items()
            return [pid for pid, command in found if "spawn_main" in command]

        eventually(lambda: len(serving()) == 2, 30)
        children = serving()
        web.process.send_signal(end)
        web.process.wait(10)

        for pid in children:
            wait_until_gone(pid)
