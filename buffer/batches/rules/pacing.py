"""Report the queue to stock Atropos environments so that they throw no work away.

The client of atroposlib 0.4.0 (`envs/base.py`, `env_manager` and `add_train_workers`) lets as many
rollouts run as the queue has room, ``max_batches_offpolicy · batch_size // group_size −
queue_size``. It cancels what runs beyond that, and everything once the room is used up. One
environment alone never meets this: what it delivers takes exactly the room that it had. Several
do: each takes the whole room for itself, and what the others deliver closes it under running
rollouts, again with every batch that the trainer takes.

So the queue is reported in two ways. While there is room it is what 0.4.0 reports. Once the
tolerance is used up, and until the queue has fallen to the lower mark, each environment has a
share of the tolerance and sees only what it has queued itself against that share: nobody else's
deliveries can cancel its work, and together the shares are the tolerance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from buffer.batches.rules.status_env import EnvironmentShare, EnvironmentStatus
from rolldeck.pacing import PauseRule


def is_over(rule: PauseRule, *, over: bool, queued: int) -> bool:
    """Return whether the queue counts as over its tolerance, with two marks so that it holds.

    Args:
        rule: The two marks, in sequences.
        over: Whether it did before.
        queued: Sequences that are queued.
    """
    if queued >= rule.pause_above:
        return True
    return over and queued > rule.resume_at


def paced(
    status: EnvironmentStatus,
    *,
    env_id: int,
    environments: Sequence[EnvironmentShare],
    queued: Mapping[int | None, int],
    rule: PauseRule,
    over: bool,
) -> EnvironmentStatus:
    """Return what an environment is told, its `queue_size` paced.

    Args:
        status: What 0.4.0 would tell it.
        env_id: One of `environments`.
        environments: All environments of the run, connected or not.
        queued: Queued sequences by environment (None: pushed without one).
        rule: The marks of the run.
        over: Whether the queue counts as over its tolerance.
    """
    own = next(share for share in environments if share.env_id == env_id)
    full = ceil(rule.pause_above / own.group_size)
    if not over:
        # Packing may count more than is there; there is room until there is none.
        return replace(status, queue_size=min(status.queue_size, max(0, full - 1)))
    theirs = {share.env_id for share in environments if share.connected}
    nobodys = sum(count for env, count in queued.items() if env not in theirs)
    room = max(0.0, rule.pause_above - nobodys) * share_of(env_id, environments)
    left = int(max(room, own.group_size)) - queued.get(env_id, 0)
    return replace(status, queue_size=max(0, full - left // own.group_size), paced=True)


def share_of(env_id: int, environments: Sequence[EnvironmentShare]) -> float:
    """Return an environment's share of the tolerance, 0 … 1; those connected share it whole.

    By weight, and never less than the environment's part of each batch.
    """
    wanted = {
        share.env_id: max(share.weight, 0.0) for share in environments if share.connected
    } or {env_id: 1.0}
    total = sum(wanted.values())
    if total <= 0:
        wanted, total = dict.fromkeys(wanted, 1.0), float(len(wanted))
    parts = {env: weight / total for env, weight in wanted.items()}
    reserved = {share.env_id: share.min_batch_allocation or 0.0 for share in environments}
    raised = {env: max(part, reserved.get(env, 0.0)) for env, part in parts.items()}
    return raised.get(env_id, 0.0) / max(sum(raised.values()), 1e-9)
