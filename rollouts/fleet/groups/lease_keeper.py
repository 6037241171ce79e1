"""Keep the lease of an evaluation for as long as it is worked on."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rolldeck.errors import RolldeckError
from rollouts.fleet.groups.platform_curriculum import FINAL

RENEWALS_A_LEASE: Final = 3
"""Two may be lost before anybody else gets the evaluation."""


class LeaseKeeper:
    """Renews a lease beside the work inside its `with` block.

    Whoever has lost the lease is told once and goes on: the fence keeps the result out.
    """

    def __init__(
        self,
        renew: Callable[[], None],
        *,
        lease_seconds: float,
        on_lost: Callable[[RolldeckError], None],
    ) -> None:
        """Renew nothing yet.

        Args:
            renew: Renews once, or raises.
            lease_seconds: That each renewal gives.
            on_lost: Hears why no renewal is taken any more.
        """
        self._renew, self._on_lost = renew, on_lost
        self._every_seconds = lease_seconds / RENEWALS_A_LEASE
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        """Begin to renew."""
        threading.Thread(target=self._run, name="evaluation lease", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End without waiting for a renewal that is under way."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_seconds):
            try:
                self._renew()
            except FINAL as refusal:
                # What was settled meanwhile is not lost.
                if not self._is_over.is_set():
                    self._on_lost(refusal)
                return
            except RolldeckError:
                continue  # The platform is away: the next attempt may come in time.
