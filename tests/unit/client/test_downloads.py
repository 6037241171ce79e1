"""Downloads are complete and consistent, however often the connection breaks."""

import hashlib

import numpy as np
import pytest
from breaking_server import BreakingFile, serving

from rolldeck import http
from rolldeck.errors import InvalidMessageError, NotFoundError, UnreachableError
from rolldeck.http import MIN_SILENT_ATTEMPTS, Backoff, Connection, download
from tests.unit.client import failing_server
from tests.unit.client.failing_server import Planned, in_turn

OLD = np.arange(1 << 18, dtype=np.uint32).tobytes()
NEW = OLD[::-1]
FAST = Backoff(first_seconds=0.01, most_seconds=0.02)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses between attempts at the same byte."""
    monkeypatch.setattr(http, "PAUSES", FAST)


def fetched(file: BreakingFile, expected: bytes = OLD) -> bytes:
    digest = hashlib.sha256(expected).hexdigest()
    with serving(file) as url, Connection(url, retry_for_seconds=0) as connection:
        return bytes(download(connection, "/file", size_bytes=len(expected), sha256=digest))


def test_a_download_resumes_where_the_connection_broke() -> None:
    file = BreakingFile(OLD)
    file.breaks_after = [1000, 50_000]

    assert fetched(file) == OLD
    assert file.requests == ["", "bytes=1000-", "bytes=51000-"]


def test_downloaded_arrays_are_read_only() -> None:
    file = BreakingFile(OLD)
    digest = hashlib.sha256(OLD).hexdigest()
    with serving(file) as url, Connection(url) as connection:
        content = download(connection, "/file", size_bytes=len(OLD), sha256=digest)

    assert content.readonly


@pytest.mark.parametrize("keeps_tag", [True, False])
def test_a_file_that_is_replaced_in_mid_download_is_refused_and_never_mixed(
    keeps_tag: bool,
) -> None:
    file = BreakingFile(OLD)
    file.breaks_after, file.then, file.keeps_tag = [4096], NEW, keeps_tag

    with pytest.raises(InvalidMessageError, match="checksum"):
        fetched(file)


def test_a_file_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="not the"):
        fetched(BreakingFile(OLD[:-1]))
    with pytest.raises(InvalidMessageError, match="longer"):
        fetched(BreakingFile(OLD + b"!"))


def test_a_silent_server_has_a_timeout() -> None:
    file = BreakingFile(OLD)
    file.breaks_after = [1000] + [0] * 100

    with pytest.raises(UnreachableError):
        fetched(file)

    assert len(file.requests) == 1 + MIN_SILENT_ATTEMPTS


def test_a_download_waits_for_a_server_that_is_unavailable() -> None:
    digest = hashlib.sha256(OLD).hexdigest()
    away = [Planned(503)] * (MIN_SILENT_ATTEMPTS + 1)
    with (
        failing_server.serving(in_turn(*away, Planned(200, OLD))) as server,
        Connection(server.url, retry_for_seconds=60, backoff=FAST) as connection,
    ):
        content = download(connection, "/file", size_bytes=len(OLD), sha256=digest)

    assert bytes(content) == OLD


def test_a_refused_download_is_not_repeated() -> None:
    with (
        failing_server.serving(in_turn(Planned(404))) as server,
        Connection(server.url) as connection,
        pytest.raises(NotFoundError),
    ):
        download(connection, "/file", size_bytes=1, sha256="")

    assert len(server.seen) == 1
