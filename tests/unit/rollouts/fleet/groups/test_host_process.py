"""Hosts of verifiers environments and the settings that name them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from rollouts.fleet.groups.environment_loader import load_environment
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from rollouts.fleet.groups.verifiers_environment import HOST, HostProcess

ECHO = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    answer = {"id": call["id"]}
    if call["call"] == "fail":
        answer["error"] = {"kind": "environment_kwargs", "message": "no chess"}
    else:
        answer["result"] = call["text"]
    print(json.dumps(answer), flush=True)
"""

Start = Callable[[str], HostProcess]
SPEC = "verifiers:maths"
ENTRY: dict[str, Any] = {"python": sys.executable, "env": {"taskset": {"id": "maths"}}}


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[HostProcess] = []

    def make(script: str) -> HostProcess:
        started.append(HostProcess([sys.executable, "-c", script], os.environ, name="host:x"))
        return started[-1]

    yield make
    for one in started:
        one.close()


def result(host: HostProcess, call: str, seconds: float = 30, **arguments: str) -> object:
    return msgspec.json.decode(host.wait(host.submit(call, arguments), seconds=seconds))


def test_concurrent_calls_get_their_own_results(start: Start) -> None:
    host = start(ECHO)
    calls = [host.submit("echo", {"text": f"é{number}"}) for number in range(20)]

    results = [msgspec.json.decode(host.wait(call, seconds=30)) for call in reversed(calls)]

    assert results == [f"é{number}" for number in reversed(range(20))]


def test_an_error_of_a_call_keeps_the_host(start: Start) -> None:
    host = start(ECHO)

    with pytest.raises(LessonFailed, match=r"^host:x: no chess$") as refused:
        result(host, "fail")

    assert refused.value.kind == "environment_kwargs"
    assert host.is_alive
    assert result(host, "echo", text="a") == "a"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("input(); print('hello')", "malformed message of the host, .*: hello"),
        ("input(); print('{\"id\": 7}')", "malformed message of the host, .*7"),
        ("input(); print('{\"result\": 7}')", "malformed message of the host, .*`id`"),
        ("input(); raise SystemExit('no cheese')", "exit code 1: no cheese"),
        ("import os; input(); os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_a_broken_host_fails_its_calls_with_the_reason(
    start: Start, script: str, text: str
) -> None:
    host = start(script)

    for _ in range(2):
        with pytest.raises(LessonFailed, match=text) as failure:
            result(host, "echo", text="a")
        assert failure.value.kind == "environment_failed"
    assert not host.is_alive


def test_a_hanging_host_is_ended_after_the_time_limit(start: Start) -> None:
    host = start("import time; time.sleep(600)")

    with pytest.raises(LessonFailed, match=r"no response within 0\.5 s; process ended"):
        result(host, "echo", seconds=0.5, text="a")

    assert host._process.returncode == -signal.SIGKILL


def test_a_host_that_does_not_read_blocks_no_shutdown(start: Start) -> None:
    host = start("import time; time.sleep(600)")
    writing = threading.Thread(target=lambda: host.submit("echo", {"text": "x" * (1 << 20)}))
    writing.start()

    host.close()

    writing.join(10)
    assert not writing.is_alive()


def test_a_stop_ends_the_wait(start: Start) -> None:
    host = start("import time; time.sleep(600)")
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()

    with pytest.raises(SamplingStopped):
        host.wait(host.submit("echo", {}), seconds=60, stop=stop)

    assert time.monotonic() - began < 10


def test_children_of_a_host_end_with_it(start: Start) -> None:
    host = start(
        "import json, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(json.dumps({'id': 1, 'result': child.pid}), flush=True)\n"
        "time.sleep(600)"
    )
    child = host.wait(host.submit("start", {}), seconds=30)

    host.close()

    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(int(bytes(child)), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("the child is still alive")


def test_a_missing_interpreter_is_named() -> None:
    with pytest.raises(LessonFailed, match="host:x needs the interpreter /none/python") as failure:
        HostProcess(["/none/python", "-c", ECHO], {}, name="host:x")

    assert failure.value.kind == "dependency_missing"


def test_the_host_of_verifiers_ends_with_its_input() -> None:
    with subprocess.Popen(
        [sys.executable, HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as host:
        assert host.stdin is not None
        host.stdin.write(b'{"id": 1, "call": "load"}\n')
        host.stdin.flush()
        assert host.stdout is not None
        assert b"needs verifiers 0.4" in host.stdout.readline()
        host.stdin.close()

        assert host.wait(10) == 0


@pytest.mark.parametrize(
    ("setting", "kwargs", "kind", "text"),
    [
        ("", {}, "environment_unknown", "is not in ROLLDECK_VERIFIERS of .*; known: none"),
        ({"chess": ENTRY}, {}, "environment_unknown", "known: chess"),
        ("{", {}, "environment_unknown", "ROLLDECK_VERIFIERS of .*truncated"),
        ({"maths": ENTRY | {"pyton": 1}}, {}, "environment_unknown", "pyton"),
        ({"maths": ENTRY | {"env": {}}}, {}, "environment_unknown", "env.taskset.id is missing"),
        ({"maths": ENTRY}, {"harness": "bash"}, "environment_kwargs", "harness"),
        ({"maths": ENTRY}, {"max_turns": 0}, "environment_kwargs", "max_turns"),
        ({"maths": ENTRY | {"python": "/none/python"}}, {}, "dependency_missing", "/none/python"),
        ({"maths": ENTRY}, {}, "dependency_missing", "needs verifiers 0.4"),
    ],
)
def test_an_invalid_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, setting: Any, kwargs: dict[str, Any], kind: str, text: str
) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    written = setting if isinstance(setting, str) else json.dumps(setting)
    monkeypatch.setenv("ROLLDECK_VERIFIERS", written)

    with pytest.raises(LessonFailed, match=text) as refused:
        load_environment(SPEC, kwargs)

    assert refused.value.kind == kind
