"""Pass weights from a manager to its workers through the cluster's object store."""

from typing import Any, Final

import ray
from ray.exceptions import RayError

from rollouts.fleet.weights.records import Rank, Version, WeightsRecord, WeightsUnavailable

GET_SECONDS: Final = 30.0
"""How long one try to get the object may take; it goes on with the next one."""


class RefWeights:
    """A version in the object store: put there once, mapped by every worker of a node.

    The reference travels inside this object and not as an argument of its own: the cluster would
    fetch an argument before it lets the call through, and hold up every later call meanwhile.
    """

    def __init__(self, rank: Rank, ref: Any) -> None:
        self.rank = rank
        self._refs = [ref]

    @property
    def version(self) -> Version:
        """Epoch and step."""
        return self.rank[1:]

    @classmethod
    def put(cls, record: WeightsRecord) -> "RefWeights":
        """Put a version into the object store; it stays while anybody holds a reference."""
        return cls(record.rank, ray.put(record))

    def receive(self, wanted: Version) -> WeightsRecord | None:
        """Return the version if it is `wanted` or later; see :class:`WeightsSource`."""
        if self.version < wanted:
            return None
        try:
            record: WeightsRecord = ray.get(self._refs[0], timeout=GET_SECONDS)
        except RayError as failure:
            raise WeightsUnavailable(f"{type(failure).__name__}: {failure}") from failure
        return record
