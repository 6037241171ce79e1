"""Replicas of an inference server, whose weights are replaced one after the other."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from rollouts.fleet.engine.engine import Version
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.weights import Unreachable

Replica = TypeVar("Replica")
Result = TypeVar("Result")


class ReplicasBehind(InferenceFailed):
    """Some replicas have `version`, and others could not be reached."""

    def __init__(self, message: str, version: Version) -> None:
        super().__init__(message)
        self.version = version


class Replicas(Generic[Replica]):
    """Replicas by address."""

    def __init__(self, by_url: Mapping[str, Replica]) -> None:
        """Store the replicas.

        Args:
            by_url: Clients by address, in the order of updates.
        """
        self._by_url = dict(by_url)

    def ask(self, question: Callable[[Replica], Result]) -> dict[str, Result]:
        """Return the results of the replicas that can be reached, by address.

        Raises:
            InferenceFailed: If a replica refuses.
            Unreachable: If none can be reached.
        """
        found, missed = self._each(question)
        if not found:
            raise Unreachable("; ".join(missed.values()))
        return found

    def roll(self, version: Version, load: Callable[[Replica], None]) -> None:
        """Load a version into one replica after the other.

        A replica that refuses ends the roll, because the next one would refuse as well.

        Args:
            version: The version, for the error.
            load: Loads it into a replica, unless the replica already has it.

        Raises:
            InferenceFailed: If a replica refuses; those after it keep their weights.
            Unreachable: If none can be reached.
            ReplicasBehind: If only some can be reached; these have the version.
        """
        loaded, missed = self._each(load)
        if missed and loaded:
            raise ReplicasBehind(
                f"{len(missed)} of {len(self._by_url)} replicas cannot be reached: "
                f"{'; '.join(missed.values())}",
                version,
            )
        if missed:
            raise Unreachable("; ".join(missed.values()))

    def _each(self, call: Callable[[Replica], Result]) -> tuple[dict[str, Result], dict[str, str]]:
        """Return results, and the reasons of unreachable replicas, by address."""
        found: dict[str, Result] = {}
        missed: dict[str, str] = {}
        for url, replica in self._by_url.items():
            try:
                found[url] = call(replica)
            except Unreachable as reason:
                missed[url] = f"{url}: {reason}"
            except InferenceFailed as failure:
                raise InferenceFailed(f"{url}: {failure}") from failure
        return found, missed
