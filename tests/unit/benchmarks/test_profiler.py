"""A profile counts what threads do, not what they wait for."""

from benchmarks.profiler import as_text, folded

RAW = """\
run (threading.py:1);decode (a/b/c/wire.py:10) 30
run (threading.py:1);decode (a/b/c/wire.py:12);count (a/b/c/wire.py:20) 10
run (threading.py:1);wait (threading.py:320) 500
run (threading.py:1);_worker (concurrent/futures/thread.py:81) 500
"""


def test_threads_that_wait_for_work_do_not_count() -> None:
    assert sum(folded(RAW).values()) == 40


def test_lines_of_one_function_are_added_up() -> None:
    text = as_text(folded(RAW), title="P1")

    alone, _, within = text.partition("with all it calls")
    assert "75.0%  decode (a/b/c/wire.py)" in alone
    assert "25.0%  count (a/b/c/wire.py)" in alone
    assert "100.0%  decode (a/b/c/wire.py)" in within


def test_packages_are_named_and_database_waits_are_separate() -> None:
    raw = "run (asgiref/sync.py:1) 1\nConnection.wait (psycopg/connection.py:453) 3\n"

    text = as_text(folded(raw), title="P1")

    assert "75.0%  waiting for PostgreSQL" in text
    assert "25.0%  asgiref" in text
