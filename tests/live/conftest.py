"""Fixtures of sockets."""

import pytest

from runs import consumers


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send heartbeats, which also check rights, every second instead of every five."""
    monkeypatch.setattr(consumers, "BEAT_SECONDS", 1.0)
    monkeypatch.setattr(consumers, "RIGHTS_SHARED_SECONDS", 0.2)
