"""Know the topics that belong to no run: who may watch them, what is news of them, how often.

What they hold, apps register as parts; see :mod:`runs.live.parts`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from runs.core.rights import Caller, may_administer, may_read

DECK: Final = "runs"
ALERTS: Final = "alerts"
AUDIT: Final = "audit"
CLUSTER: Final = "cluster"
CLUSTER_ADMIN: Final = "cluster_admin"
ME: Final = "me"
"""Each person has one of their own, and all call it so."""


def _is_person(caller: Caller) -> bool:
    return caller.identity.startswith("user:")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeckTopicRule:
    """How a topic of the deck is kept."""

    may_watch: Callable[[Caller], bool] = may_read
    needs: str = "the right to read every run"
    """What somebody lacks who may not."""
    hears: frozenset[str] | None = frozenset()
    """Parts whose nudges are its news; None: every nudge."""
    frame_seconds: float = 1.0
    """From one frame to the next at least."""
    look_seconds: float = 2.0
    """It is looked at so often without a nudge."""
    is_seen_only: bool = False
    """It is not looked at while every page that watches it is hidden."""


DECK_TOPICS: Final[dict[str, DeckTopicRule]] = {
    DECK: DeckTopicRule(hears=None),
    ALERTS: DeckTopicRule(hears=frozenset({"alerts"})),
    AUDIT: DeckTopicRule(hears=frozenset({"events"}), is_seen_only=True),
    # Of a machine only cordons are announced: else it is looked at, once for all who watch.
    CLUSTER: DeckTopicRule(hears=frozenset({"cluster"}), look_seconds=5.0, is_seen_only=True),
    CLUSTER_ADMIN: DeckTopicRule(
        may_watch=may_administer,
        needs="the right to administer",
        hears=frozenset({"cluster"}),
        look_seconds=5.0,
        is_seen_only=True,
    ),
    ME: DeckTopicRule(
        may_watch=_is_person,
        needs="somebody who is signed in",
        hears=frozenset({"me"}),
        look_seconds=5.0,
    ),
}


def key_of(topic: str, caller: Caller) -> str:
    """Return what a topic that a page names is known by among the topics of everybody."""
    return f"{ME}:{caller.identity}" if topic == ME else topic


def told_as(key: str) -> str:
    """Return what pages call a topic."""
    return ME if key.startswith(f"{ME}:") else key


def rule_of(key: str) -> DeckTopicRule | None:
    """Return how a topic of the deck is kept; None for one of a run."""
    return DECK_TOPICS.get(told_as(key))
