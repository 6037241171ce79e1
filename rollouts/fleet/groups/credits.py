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
        """Return a consistent pair of unspent and spent credits."""
        with self._lock:
            return self.unspent, self.spent

    def grant(self, sequences: int) -> None:
        """Grant credits for further sequences."""
        with self._lock:
            self.unspent += sequences

    def reserve(self, *, groups: int, group_size: int) -> int:
        """Spend credits for up to `groups` whole groups; return how many groups fit."""
        with self._lock:
            count = min(groups, self.unspent // group_size)
            self.unspent -= count * group_size
            self.spent += count * group_size
            return count

    def settle(self, *, sequences: int, handed_over: int) -> None:
        """Finish some sequences; the credits of those not handed over are returned."""
        with self._lock:
            self.spent -= sequences
            self.unspent += sequences - handed_over
