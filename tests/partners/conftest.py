"""Fixtures of the tests against other projects' packages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.partners.verifiers_bench import MakeBench, benches


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBench]:
    """Return a function that makes workers with a verifiers lesson."""
    yield from benches(tmp_path, monkeypatch)
