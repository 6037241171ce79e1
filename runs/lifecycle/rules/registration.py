"""Trainer registrations and the epochs that they open."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

SEEN_EVERY: Final = timedelta(seconds=15)
"""An environment's calls renew `last_seen_at` at most this often."""
SILENT_AFTER: Final = timedelta(minutes=2)
"""An environment without a call for this long counts as disconnected until its next call."""


def was_seen_recently(last_seen_at: datetime, *, now: datetime) -> bool:
    """Return whether an environment has made a call within :data:`SILENT_AFTER`."""
    return now - last_seen_at <= SILENT_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Registration of an Atropos trainer, with the field names of its protocol.

    `batch_size` counts sequences, `max_token_len` tokens; `save_checkpoint_interval`,
    `starting_step` and `num_steps` count train steps.
    """

    wandb_group: str | None = None
    wandb_project: str | None = None
    batch_size: int
    max_token_len: int
    checkpoint_dir: str = ""
    save_checkpoint_interval: int = 0
    starting_step: int = 0
    num_steps: int = 0


Differences = dict[str, dict[str, Any]]
"""The registered value and that of the run, by the name of the setting."""


def differences(registration: Registration, run: Mapping[str, Any]) -> Differences | None:
    """Return the settings of a registration that differ from those of its run, or None."""
    found = {
        setting.name: {"registered": value, "run": run[setting.name]}
        for setting in fields(registration)
        if (value := getattr(registration, setting.name)) != run[setting.name]
    }
    return found or None


def describe_differences(found: Differences) -> str:
    """Return differences in words: ``batch_size 32, not 64``."""
    return "; ".join(
        f"{name} {values['registered']!r}, not {values['run']!r}"
        for name, values in sorted(found.items())
    )


def opens_epoch(
    *, epoch: int, published: bool, known: bool, resume: bool, is_fleet: bool, is_stock: bool
) -> bool:
    """Return whether a registration opens a new epoch of its run.

    Args:
        epoch: Epoch of the run; 0 before the first trainer of the first run of a name.
        published: The current epoch has at least one policy version.
        known: The same identity has registered in this run before.
        resume: The trainer continues its previous session.
        is_fleet: The run's data carries the epoch it was sampled in.
        is_stock: The registration came over the Atropos routes, which have no epochs: a second
            registration there is a further trainer, and queued items remain valid.
    """
    if epoch == 0:
        return True
    if resume or is_stock:
        return False
    return published or (known and is_fleet)
