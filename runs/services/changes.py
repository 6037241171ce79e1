"""Tell other parts of the platform that a run's status changed.

Apps above this one subscribe in ``AppConfig.ready``. What they do must be quick and must not
matter if it fails: whoever needs to know looks at the database again by itself.
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
    """Tell the subscribers once the change is committed."""
    transaction.on_commit(partial(_call_all, run_id), robust=True)


def _call_all(run_id: int) -> None:
    for callback in _subscribers:
        try:
            callback(run_id)
        except Exception:
            logger.exception("a subscriber to changes of run %d failed", run_id)
