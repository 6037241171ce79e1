"""Weights in the cluster's object store, shared by a manager with its workers."""

from typing import Any, Final

import ray
from ray.exceptions import RayError

from rollouts.fleet.weights.records import Rank, Version, WeightsRecord, WeightsUnavailable

GET_SECONDS: Final = 30.0
"""Time limit of one attempt to get the object; the next attempt continues the transfer."""


class RefWeights:
    """A version in the object store: stored once, mapped by every worker of a node.

    The reference travels inside this object, not as a call argument. Ray would fetch an argument
    before running the call and would block all later calls in the meantime.
    """

    def __init__(self, rank: Rank, ref: Any) -> None:
        self.rank = rank
        self._refs = [ref]

    @property
    def version(self) -> Version:
        return self.rank[1:]

    @classmethod
    def put(cls, record: WeightsRecord) -> "RefWeights":
        """Put a version into the object store; it stays while any reference exists."""
        return cls(record.rank, ray.put(record))

    def receive(self, version: Version) -> WeightsRecord | None:
        if self.version < version:
            return None
        try:
            record: WeightsRecord = ray.get(self._refs[0], timeout=GET_SECONDS)
        except RayError as failure:
            raise WeightsUnavailable(f"{type(failure).__name__}: {failure}") from failure
        return record
