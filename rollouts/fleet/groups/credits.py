"""Count the sequences that a worker may still begin, in whole groups."""

import threading


class Credits:
    """Room in the buffer that was granted; threads may share it.

    A credit is the right to begin one sequence. It is unspent, or a sequence is being sampled
    with it; it ends when that sequence is handed over, and comes back when it came to nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unspent = 0
        self.spent = 0
        """Sequences that are being sampled."""

    def held(self) -> tuple[int, int]:
        """Return unspent and spent credits of one moment."""
        with self._lock:
            return self.unspent, self.spent

    def grant(self, sequences: int) -> None:
        """Allow so many further sequences."""
        with self._lock:
            self.unspent += sequences

    def take(self, *, groups: int, group_size: int) -> int:
        """Begin up to `groups` whole groups; return how many there was room for."""
        with self._lock:
            count = min(groups, self.unspent // group_size)
            self.unspent -= count * group_size
            self.spent += count * group_size
            return count

    def settle(self, *, sequences: int, handed_over: int) -> None:
        """End the sampling of some sequences; those not handed over may be begun again."""
        with self._lock:
            self.spent -= sequences
            self.unspent += sequences - handed_over
