"""Replay buffer interface to the fragments of a run, over HTTP.

The calls are those of MineStudio's ``ReplayBufferInterface``: rollout workers add fragments, a
trainer fetches them and announces a new model or training session. The platform stores the
fragments, so any number of processes may use such an interface.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from rolldeck.batches import Batch
from rolldeck.followers import Follower
from rolldeck.http import Call, Connection, PlatformClient
from rolldeck.trainer import Trainer, TrainerRegistration
from rolldeck.wire import (
    BATCH_TYPE,
    FRAGMENTS_TYPE,
    Fragment,
    FragmentReceipt,
    WeightsManifest,
    encode,
    encode_push,
    pack_array,
)

__all__ = ["Follower", "ReplayBufferInterface", "pack_fragment"]


class ReplayBufferInterface(PlatformClient):
    """Interface to one run's fragments, for workers (scope ``worker``) and trainers (``trainer``).

    The loop of a worker and that of a trainer::

        buffer.add_fragments(fragments)

        buffer.update_training_session()
        buffer.update_model_version(weights, step=0)
        batch = None
        while (batch := buffer.fetch(16, wait_seconds=30, ack=batch)) is not None:
            weights, errors = learn(batch.stack(), batch.importance_weights)
            buffer.update_priorities(batch, errors)
            buffer.update_model_version(weights, step=batch.head.policy_step + 1)
    """

    def __init__(
        self,
        url: str | None = None,
        run: str = "",
        token: str | None = None,
        *,
        name: str = "replay",
        connection: Connection | None = None,
    ) -> None:
        """Configure without sending a request; for the arguments see `rolldeck.trainer.Trainer`."""
        super().__init__(url, run, token, connection)
        self._trainer = Trainer(url, run, name=name, connection=self._connection)
        self._path = f"{self._root}/fragments"

    def add_fragment(self, fragment: Fragment) -> FragmentReceipt:
        """Store one fragment, see :meth:`add_fragments`."""
        return self.add_fragments([fragment])

    def add_fragments(self, fragments: Sequence[Fragment]) -> FragmentReceipt:
        """Store fragments; when this returns, those accepted survive a crash of the platform.

        Args:
            fragments: 1 to 1024. A fragment with the slot and number of a stored one is a
                duplicate: counted, not stored again.

        Raises:
            InvalidRequestError: If a fragment is malformed (named in `errors`); none was stored.
            RunNotAcceptingError: If the run accepts no data at present.
        """
        body = encode_push([encode(fragment) for fragment in fragments])
        call = Call(method="POST", path=self._path, content=body, content_type=FRAGMENTS_TYPE)
        return self._connection.decoded(call, FragmentReceipt)

    def fetch(
        self, count: int, wait_seconds: float = 0.0, *, ack: Batch | None = None
    ) -> Batch | None:
        """Lease `count` fragments by the run's sampler; None if too few arrive in time.

        Args:
            count: Number of fragments, all or none; a multiple of `fragments_per_chunk`.
            wait_seconds: 0 to 60.
            ack: Fetched batch to acknowledge first, as :meth:`ack` does, in the same request.

        Raises:
            LeaseLostError: If the lease of `ack` expired and its fragments were leased again;
                nothing was leased.
        """
        body: dict[str, object] = {"count": count, "wait_seconds": wait_seconds}
        if ack is not None:
            body["ack"] = _ack_of(ack)
        call = Call(
            method="POST",
            path=f"{self._path}/fetch",
            json=body,
            accept=BATCH_TYPE,
            wait_seconds=wait_seconds,
        )
        answer = self._connection.send(call)
        return None if answer.status == 204 else Batch.decode(answer.data)

    def ack(self, batch: Batch) -> None:
        """Acknowledge fetched fragments, so that they are not leased again.

        Raises:
            LeaseLostError: If the lease expired and they were leased again.
        """
        call = Call(method="POST", path=f"{self._path}/ack", json=_ack_of(batch))
        self._connection.send(call)

    def update_priorities(self, batch: Batch, priorities: Sequence[float]) -> int:
        """Set the priorities of a sampled batch's fragments; return the number of updated chunks.

        Nothing is sent for a batch that was not sampled. Chunks no longer in the sampler are
        skipped.

        Args:
            batch: A fetched batch, acknowledged or not.
            priorities: One per item, greater than 0; the maximum of a chunk's fragments applies.
        """
        if not batch.head.item_ids:
            return 0
        updates = [
            {"id": item_id, "priority": float(priority)}
            for item_id, priority in zip(batch.head.item_ids, priorities, strict=True)
        ]
        body = {"batch": batch.head.id, "updates": updates}
        call = Call(method="POST", path=f"{self._path}/priorities", json=body)
        answer = self._connection.json(call)
        return int(answer["updated"]) if isinstance(answer, dict) else 0

    def update_model_version(
        self, weights: Mapping[str, NDArray[Any]] | bytes, *, step: int
    ) -> WeightsManifest:
        """Publish version `step`; fragments that are now too stale are dropped from the buffer."""
        return self._trainer.publish_weights(weights, step=step)

    def update_training_session(self, *, resume: bool = False) -> TrainerRegistration:
        """Open a training session: a new epoch, or with `resume` the present one.

        Fragments of older epochs are dropped from the buffer.
        """
        return self._trainer.register(resume=resume)


def _ack_of(batch: Batch) -> dict[str, object]:
    return {"batch": batch.head.id, "fence": batch.head.fence}


def pack_fragment(
    arrays: Mapping[str, NDArray[Any]], *, slot: str, number: int, **described: Any
) -> Fragment:
    """Create a fragment from `arrays`, named as in :class:`rolldeck.wire.Fragment`.

    Args:
        arrays: ``reward [T]`` determines the number of steps, ``policy_step [T]`` the versions.
        slot: Env slot and incarnation, unique in the run.
        number: Position in the slot, from 0.
        described: Other fields of the fragment: `environment`, `worker`, `epoch`, `episode_ids`,
            `contiguous` (default: number > 0).
    """
    described.setdefault("contiguous", number > 0)
    return Fragment(
        slot=slot,
        number=number,
        version_min=int(arrays["policy_step"].min()),
        version_max=int(arrays["policy_step"].max()),
        steps=len(arrays["reward"]),
        arrays={name: pack_array(array) for name, array in arrays.items()},
        **described,
    )
