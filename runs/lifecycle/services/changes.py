"""Notify other parts of the platform of status changes of runs.

Apps above this one subscribe in ``AppConfig.ready``. Callbacks must be fast and may fail:
subscribers also poll the database.
"""

import logging
from collections.abc import Callable
from functools import partial

from django.db import transaction

logger = logging.getLogger(__name__)

_subscribers: list[Callable[[int], object]] = []


def subscribe(callback: Callable[[int], object]) -> None:
    """Call ``callback(run_id)`` after each committed change of a run's status."""
    if callback not in _subscribers:
        _subscribers.append(callback)


def notify(run_id: int) -> None:
    """Notify the subscribers after the commit."""
    transaction.on_commit(partial(_call_all, run_id), robust=True)


def _call_all(run_id: int) -> None:
    for callback in _subscribers:
        try:
            callback(run_id)
        except Exception:
            logger.exception("status subscriber failed for run %d", run_id)
