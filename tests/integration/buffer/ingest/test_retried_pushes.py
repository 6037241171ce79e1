"""A client without keys repeats a push, byte for byte, when its answer was lost."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from buffer.ingest.models import UnansweredPush
from buffer.ingest.services import idempotency
from buffer.ingest.services.idempotency import delete_old_pushes
from buffer.items.models import TrajectoryGroup
from runs.lifecycle.models import Run
from tests.buffer_factories import REGISTRATION, body, group
from tests.factories import bearer
from tests.waiting import eventually
from tests.web_process import WebProcess, web_process

pytestmark = pytest.mark.django_db(transaction=True)

PUSH = body(group())


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """A file; while it exists, answers to pushes stay in the transport."""
    return tmp_path / "hold"


@pytest.fixture
def web(tmp_path: Path, hold: Path) -> Iterator[WebProcess]:
    with web_process(
        tmp_path / "web.log", module=("tests.delayed_answers", "{fd}", str(hold))
    ) as process:
        httpx.post(f"{process.url}/register", json=REGISTRATION, timeout=30).raise_for_status()
        yield process


def push(web: WebProcess, content: bytes = PUSH, **headers: str) -> httpx.Response:
    response = httpx.post(f"{web.url}/scored_data", content=content, headers=headers, timeout=30)
    assert response.status_code == 200, response.text
    return response


def is_replayed(response: httpx.Response) -> bool:
    return response.headers.get("Idempotent-Replayed") == "true"


def stored() -> int:
    return TrajectoryGroup.objects.count()


def request_of(content: bytes) -> bytes:
    return (
        b"POST /scored_data HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: %d\r\n\r\n" % len(content) + content
    )


def send_and_hang_up(web: WebProcess) -> None:
    """Send a push and leave once it is stored, before its answer."""
    before = stored()
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(request_of(PUSH))
        eventually(lambda: stored() > before, 20)
        port = client.getsockname()[1]
        assert is_connected(web, port)
    eventually(lambda: not is_connected(web, port), 20)


def is_connected(web: WebProcess, port: int) -> bool:
    """Return whether the server still has its end of a connection from a client's port."""
    ends = psutil.Process(web.process.pid).net_connections("tcp")
    return any(end.raddr and end.raddr.port == port for end in ends)


def in_background(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def work() -> None:
        with contextlib.suppress(httpx.TransportError):
            results.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    return thread, results


def test_a_push_whose_sender_hung_up_is_stored_once(web: WebProcess, hold: Path) -> None:
    hold.touch()
    send_and_hang_up(web)
    hold.unlink()

    again = push(web)

    assert (stored(), is_replayed(again), again.json()) == (1, True, {"status": "received"})


def test_a_push_whose_server_was_killed_before_the_answer_is_stored_once(
    web: WebProcess, hold: Path, tmp_path: Path
) -> None:
    hold.touch()
    thread, answers = in_background(lambda: push(web))
    eventually(lambda: stored() == 1, 20)
    web.kill()
    thread.join()
    assert answers == []

    with web_process(tmp_path / "next.log") as survivor:
        assert is_replayed(push(survivor))
        # The answer has arrived now: what comes next is new.
        assert not is_replayed(push(survivor))
    assert stored() == 2


def test_the_same_data_after_an_answer_is_new_data(web: WebProcess) -> None:
    assert [is_replayed(push(web)) for _ in range(5)] == [False] * 5
    assert stored() == 5


def test_the_same_data_after_an_answer_is_new_data_in_every_process(
    web: WebProcess, tmp_path: Path
) -> None:
    with web_process(tmp_path / "other.log") as other:
        assert [is_replayed(push(server)) for server in (web, other, web)] == [False] * 3

    assert stored() == 3


def test_a_retry_at_another_process_is_recognised(
    web: WebProcess, hold: Path, tmp_path: Path
) -> None:
    with web_process(tmp_path / "other.log") as other:
        hold.touch()
        send_and_hang_up(web)

        assert is_replayed(push(other))
    assert stored() == 1


def test_a_retry_that_overtakes_its_first_answer_is_stored_once(
    web: WebProcess, hold: Path
) -> None:
    hold.touch()
    threads = [in_background(lambda: push(web)) for _ in range(3)]
    eventually(lambda: hold.stat().st_size == 3, 20)
    hold.unlink()
    for thread, _ in threads:
        thread.join()

    answers = [results[0] for _, results in threads]
    assert sorted(map(is_replayed, answers)) == [False, True, True]
    assert stored() == 1


def test_other_bytes_and_other_identities_are_other_pushes(web: WebProcess, hold: Path) -> None:
    hold.touch()
    send_and_hang_up(web)
    hold.unlink()

    assert not is_replayed(push(web, PUSH + b" "))
    assert not is_replayed(push(web, **bearer("env")))
    assert stored() == 3


def test_after_a_minute_the_same_data_is_new_data(web: WebProcess, hold: Path) -> None:
    hold.touch()
    send_and_hang_up(web)
    hold.unlink()
    UnansweredPush.objects.update(accepted_at=datetime.now(UTC) - timedelta(seconds=61))

    assert not is_replayed(push(web))
    assert stored() == 2


def test_a_retry_is_answered_after_the_end_of_the_run(web: WebProcess, hold: Path) -> None:
    hold.touch()
    send_and_hang_up(web)
    hold.unlink()
    Run.objects.update(status="completed")

    assert is_replayed(push(web))
    refused = httpx.post(f"{web.url}/scored_data", content=body(group(mark=2)), timeout=60)
    assert refused.status_code == 409


def test_answered_pushes_are_marked_for_other_processes_and_later_deleted(
    web: WebProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(web)
    push(web, body(group(mark=2)))
    eventually(lambda: not UnansweredPush.objects.filter(answered_at=None).exists(), 20)

    monkeypatch.setattr(idempotency, "KEPT_SECONDS", 0.0)
    row = UnansweredPush.objects.earliest("pk")
    key = row.run_id, bytes(row.fingerprint)
    idempotency.answered.record(key, row.pk, datetime.now(UTC))

    eventually(lambda: UnansweredPush.objects.count() == 1, 20)
    eventually(lambda: idempotency.answered.get(key) is None, 20)


def test_lost_answers_expire(web: WebProcess, hold: Path) -> None:
    hold.touch()
    send_and_hang_up(web)

    assert delete_old_pushes(now=datetime.now(UTC)) == 0
    assert delete_old_pushes(now=datetime.now(UTC) + timedelta(seconds=61)) == 1


KEYED = {"Idempotency-Key": "one push"}


def test_a_key_survives_a_server_that_was_killed_before_the_answer(
    web: WebProcess, hold: Path, tmp_path: Path
) -> None:
    hold.touch()
    thread, answers = in_background(lambda: push(web, **KEYED))
    eventually(lambda: stored() == 1, 20)
    web.kill()
    thread.join()
    assert answers == []

    with web_process(tmp_path / "next.log") as survivor:
        assert [is_replayed(push(survivor, **KEYED)) for _ in range(2)] == [True, True]
        other = httpx.post(
            f"{survivor.url}/scored_data", content=PUSH + b" ", headers=KEYED, timeout=60
        )
    assert (other.status_code, stored()) == (422, 1)


def test_of_many_pushes_with_one_key_at_once_one_is_stored(web: WebProcess, tmp_path: Path) -> None:
    def send_request(url: str) -> httpx.Response:
        return httpx.post(f"{url}/scored_data", content=PUSH, headers=KEYED, timeout=30)

    with web_process(tmp_path / "other.log") as other:
        threads = [in_background(partial(send_request, server.url)) for server in [web, other] * 8]
        for thread, _ in threads:
            thread.join()

    answers = [results[0] for _, results in threads]
    assert {answer.status_code for answer in answers} <= {200, 409}
    first = [answer for answer in answers if answer.status_code == 200 and not is_replayed(answer)]
    assert (len(first), stored()) == (1, 1)


def test_the_same_data_on_another_connection_is_new_while_the_first_one_stays_open(
    web: WebProcess,
) -> None:
    with httpx.Client(timeout=60) as first, httpx.Client(timeout=60) as second:
        for client in (first, second, first, second):
            answer = client.post(f"{web.url}/scored_data", content=PUSH, timeout=30)
            assert not is_replayed(answer)

    assert stored() == 4


def test_a_push_whose_client_closed_before_it_was_stored_is_not_stored(web: WebProcess) -> None:
    web.process.send_signal(signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(request_of(PUSH))
        client.shutdown(socket.SHUT_WR)
    web.process.send_signal(signal.SIGCONT)

    assert not is_replayed(push(web, body(group(mark=2))))
    eventually(lambda: '"status": 408' in web.log() or " 408" in web.log(), 20)
    assert stored() == 1


def test_equal_pushes_one_after_the_other_take_no_longer_than_others(
    web: WebProcess, tmp_path: Path
) -> None:
    def seconds(content: Callable[[int], bytes], servers: list[WebProcess]) -> float:
        began = time.monotonic()
        for number in range(40):
            assert not is_replayed(push(servers[number % len(servers)], content(number)))
        return time.monotonic() - began

    with web_process(tmp_path / "other.log") as other:
        servers = [web, other]
        different = seconds(lambda number: body(group(mark=number + 2)), servers)
        equal = seconds(lambda _: PUSH, servers)

    assert stored() == 80
    # The claim of another process ends when it has marked the answer, which takes 2 to 20 ms; on
    # a busy machine both the mark and the next look at it are late.
    assert equal - different < 40 * 0.15
