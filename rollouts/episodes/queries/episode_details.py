"""One episode with its parts in stored fragments."""

from buffer.inspect.queries.episode_search import BYTES_OF_EPISODE_AT_MOST, EpisodeSearch
from rollouts.episodes.schemas import EpisodeDetail, PartOfEpisode
from web.rules.errors import NotFound


class EpisodeNotStored(NotFound):
    """No stored fragment of the run holds the episode."""


def episode_detail(run_id: int, episode: str) -> EpisodeDetail:
    """Return an episode of a run with its parts in the order of its steps.

    Raises:
        InvalidEpisodeId: If `episode` is not the id of an episode.
        EpisodeNotStored: If no stored fragment holds it.
        SearchTooSlow: If the database takes too long.
    """
    search = EpisodeSearch(run_id, bytes_at_most=BYTES_OF_EPISODE_AT_MOST)
    found = search.fragments_of(episode)
    if not found:
        raise EpisodeNotStored(
            f"no stored fragment holds the episode {episode}: evaluations are not stored, and"
            " retention removes old fragments"
        )
    first, last = found[0][0], found[-1]
    return EpisodeDetail(
        id=episode,
        slot=first.slot,
        environment=first.environment,
        worker=first.worker,
        steps=sum(part.steps for _, part in found),
        total_return=float(f"{sum(part.reward for _, part in found):.7g}"),
        begins=found[0][1].begins,
        outcome=last[1].outcome,
        is_partial=search.is_cut,
        parts=[
            PartOfEpisode(
                fragment=row.id,
                number=row.number,
                first=part.first,
                steps=part.steps,
                total=row.steps,
                reward=part.reward,
                epoch=row.epoch,
                version_min=row.version_min,
                version_max=row.version_max,
                state=row.state,
                drop_reason=row.drop_reason,
                batch=row.batch,
                step=row.step,
                received_at=row.received_at,
            )
            for row, part in found
        ],
    )
