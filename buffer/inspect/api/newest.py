"""Live part with the newest trajectories of a run."""

from typing import Final

from msgspec import Struct

from buffer.inspect.api.fragment_lists import summary as of_fragment
from buffer.inspect.api.group_lists import summaries
from buffer.inspect.queries import fragment_lists, group_lists
from buffer.inspect.rules.group_filter import GroupFilter
from buffer.inspect.schemas import FragmentSummary, GroupSummary
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from runs.lifecycle.models import Run

SHOWN: Final = 5


class NewestTrajectories(Struct, frozen=True, kw_only=True):
    """The newest items of a run, newest first; a run has either groups or fragments."""

    groups: list[GroupSummary]
    fragments: list[FragmentSummary]


def newest_part(run_id: int) -> NewestTrajectories | None:
    """Return the newest items, or None if the run no longer exists."""
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return None
    group_filter = GroupFilter()
    if kind_of(run) is ItemKind.FRAGMENTS:
        page = fragment_lists.fragment_page(run_id, group_filter, limit=SHOWN)
        found = [of_fragment(row, page.rewards.get(row.id)) for row in page.rows]
        return NewestTrajectories(groups=[], fragments=found)
    rows = group_lists.group_page(run_id, group_filter, limit=SHOWN).rows
    return NewestTrajectories(groups=summaries(run_id, rows), fragments=[])
