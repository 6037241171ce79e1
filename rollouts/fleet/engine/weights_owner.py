"""The run that trains the weights of `rolldeck serve`."""

from typing import Final

from rollouts.fleet.engine.engine import Version

RUN: Final = "run"
"""Parameter of the weights route, and field of ``/health``, with the run."""


def in_use(run: str, version: Version) -> str:
    """Return why the server refuses another run than `run`."""
    return (
        f"the server holds version {version[0]}/{version[1]} of run {run!r}, and a server serves "
        "one run at a time. Use another server, or restart this one after that run has ended"
    )
