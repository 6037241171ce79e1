"""Topics of the deployment: access rules, change notices and frame rates.

Apps register their content as parts; see :mod:`web.live.parts`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from runs.access.rules import ADMINISTER, READ, Caller, may_administer, may_read

RUN_LIST: Final = "runs"
ALERTS: Final = "alerts"
CLUSTER: Final = "cluster"
CLUSTER_ADMIN: Final = "cluster_admin"
ME: Final = "me"
"""Each person has a separate topic under this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTopicRule:
    """Access and rate of a deployment topic."""

    may_watch: Callable[[Caller], bool] = may_read
    refusal: Callable[[Caller], str] = READ.refusal
    """Text of a refusal: the missing right."""
    listens_to: frozenset[str] | None = frozenset()
    """Parts whose notices concern the topic; None for all notices."""
    frame_seconds: float = 1.0
    """Minimum interval between frames."""
    poll_seconds: float = 2.0
    """Poll interval without notices."""
    is_visible_only: bool = False
    """Not read while all pages that watch it are hidden."""


SERVER_TOPICS: Final[dict[str, GlobalTopicRule]] = {
    RUN_LIST: GlobalTopicRule(listens_to=None),
    ALERTS: GlobalTopicRule(listens_to=frozenset({"alerts"})),
    # Machines announce only cordons: other changes are polled, once for all watchers.
    CLUSTER: GlobalTopicRule(
        listens_to=frozenset({"cluster"}), poll_seconds=5.0, is_visible_only=True
    ),
    CLUSTER_ADMIN: GlobalTopicRule(
        may_watch=may_administer,
        refusal=ADMINISTER.refusal,
        listens_to=frozenset({"cluster"}),
        poll_seconds=5.0,
        is_visible_only=True,
    ),
    ME: GlobalTopicRule(
        may_watch=lambda caller: caller.identity.startswith("user:"),
        refusal=lambda _: "This needs a signed-in user.",
        listens_to=frozenset({"me"}),
        poll_seconds=5.0,
    ),
}


def key_of(topic: str, caller: Caller) -> str:
    """Return the internal key of a topic that a page names."""
    return f"{ME}:{caller.identity}" if topic == ME else topic


def frame_topic(key: str) -> str:
    """Return the name of a topic in frames."""
    return ME if key.startswith(f"{ME}:") else key


def rule_of(key: str) -> GlobalTopicRule | None:
    """Return the rule of a deployment topic; None for a topic of a run."""
    return SERVER_TOPICS.get(frame_topic(key))
