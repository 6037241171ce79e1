"""Count the sequences that a worker may still start, in whole groups."""

import threading


class Credits:
    """Granted room in the buffer; thread-safe.

    A credit allows one sequence to be started. It is either unspent or in use by a sequence
    being sampled. It is consumed when that sequence is handed over, and returned otherwise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unspent = 0
        self.spent = 0
        """Number of sequences being sampled."""

    def held(self) -> tuple[int, int]:
        """Return a consistent pair of unspent and spent credits; unspent may be negative."""
        with self._lock:
            return self.unspent, self.spent

    def grant(self, sequences: int) -> None:
        """Grant credits for further sequences."""
        with self._lock:
            self.unspent += sequences

    def reserve(self, *, groups: int, group_size: int, may_exceed: bool = False) -> int:
        """Spend credits for up to `groups` whole groups; return how many groups fit.

        Args:
            groups: Groups to start.
            group_size: Sequences of each.
            may_exceed: Whether one group may exceed the credits, if any are unspent and nothing is
                being sampled. A remainder smaller than a lesson's group could otherwise keep a
                batch from being completed. Later grants repay the excess.
        """
        with self._lock:
            count = min(groups, max(0, self.unspent) // group_size)
            if may_exceed and not count and groups and self.unspent > 0 and not self.spent:
                count = 1
            self.unspent -= count * group_size
            self.spent += count * group_size
            return count

    def settle(self, *, sequences: int, handed_over: int) -> None:
        """Finish some sequences; the credits of those not handed over are returned."""
        with self._lock:
            self.spent -= sequences
            self.unspent += sequences - handed_over
