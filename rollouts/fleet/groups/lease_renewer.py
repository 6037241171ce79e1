"""Renewal of an evaluation's lease while the evaluation runs."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rolldeck.errors import RolldeckError
from rollouts.fleet.groups.platform_curriculum import FINAL

RENEWALS_A_LEASE: Final = 3
"""Renewals per lease period: two may fail before the lease expires."""


class LeaseRenewer:
    """Context manager that renews a lease in a background thread.

    If the lease is lost, `on_lost` is called once and the work continues; the fence then rejects
    its result.
    """

    def __init__(
        self,
        renew: Callable[[], None],
        *,
        lease_seconds: float,
        on_lost: Callable[[RolldeckError], None],
    ) -> None:
        """Prepare the keeper; renewals start on entry.

        Args:
            renew: Renews the lease once, or raises.
            lease_seconds: Duration that each renewal adds.
            on_lost: Receives the reason when renewals are refused for good.
        """
        self._renew, self._on_lost = renew, on_lost
        self._every_seconds = lease_seconds / RENEWALS_A_LEASE
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        """Start renewing."""
        threading.Thread(target=self._run, name="evaluation lease", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop without waiting for a renewal in progress."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_seconds):
            try:
                self._renew()
            except FINAL as refusal:
                # An evaluation that has been recorded in the meantime is not lost.
                if not self._is_over.is_set():
                    self._on_lost(refusal)
                return
            except RolldeckError:
                continue  # The platform is unreachable; the next attempt may still be in time.
