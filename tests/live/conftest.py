"""Fixtures of sockets."""

from dataclasses import replace

import pytest

from runs.live import api as consumers
from runs.live.rules import SERVER_TOPICS


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send heartbeats, which also check rights, every 0.4 seconds instead of every five."""
    monkeypatch.setattr(consumers, "BEAT_SECONDS", 0.4)
    monkeypatch.setattr(consumers, "RIGHTS_SHARED_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def quick_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send ten frames a second of a topic of the server, and poll each every two seconds.

    The product sends one a second, and polls some only every five. Tests that ask whether a
    notice sent a frame compare with the two seconds.
    """
    for topic, rule in SERVER_TOPICS.items():
        quick = replace(rule, frame_seconds=0.1, poll_seconds=2.0)
        monkeypatch.setitem(SERVER_TOPICS, topic, quick)
