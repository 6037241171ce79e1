"""Notify other parts of the platform of status changes of runs."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from django.db import transaction

logger = logging.getLogger(__name__)

SUBSCRIBERS: Final[list[Callable[[int], object]]] = []
"""Called with the id of a run after each committed change of its status (:mod:`config.readers`).
They must be fast and may fail: subscribers also poll the database.
"""


def notify(run_id: int) -> None:
    """Notify the subscribers after the commit."""
    transaction.on_commit(partial(_call_all, run_id), robust=True)


def _call_all(run_id: int) -> None:
    for callback in SUBSCRIBERS:
        try:
            callback(run_id)
        except Exception:
            logger.exception("status subscriber failed for run %d", run_id)
