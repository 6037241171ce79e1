"""Pool of a fleet's workers: the current ones and those that are leaving."""

from collections.abc import Iterable

from rolldeck.operator_requests import CordonCommand, MachineCommand, RestartCommand
from rolldeck.wire import EpisodeWindow, InfoWindow, WorkerReport
from rollouts.fleet.manager.worker_supervisor import WorkerSupervisor
from rollouts.fleet.manager.workers import WorkerSource
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings


class WorkerPool:
    """Worker supervisors by index.

    One thread resizes and runs the pool. Other threads may read concurrently, because the lists
    are replaced and never mutated. A worker that left is reported once more before its index is
    reused, so no report contains two workers of one index.
    """

    def __init__(self, *, settings: FleetSettings, source: WorkerSource, events: EventLog) -> None:
        self._settings = settings
        self._source = source
        self._events = events
        self.members: list[WorkerSupervisor] = []
        """Ordered by index, including workers that are leaving."""
        self._left: list[WorkerReport] = []
        self._closed = frozenset(settings.closed_nodes)
        source.exclude_nodes(self._closed)
        self._accepted_of_the_left = 0
        self._episodes_of_the_left: list[EpisodeWindow] = []
        self._info_of_the_left: list[InfoWindow] = []
        self.resize(settings.config.fleet.num_workers, 0.0)

    @property
    def staying(self) -> list[WorkerSupervisor]:
        return [member for member in self.members if not member.is_leaving]

    @property
    def accepted(self) -> int:
        """Number of fragments the platform accepted, over all workers of the fleet's history."""
        return self._accepted_of_the_left + sum(member.accepted for member in self.members)

    @property
    def outstanding(self) -> int:
        """Number of credits granted and not yet used up."""
        return sum(member.outstanding for member in self.members)

    def resize(self, size: int, now: float) -> None:
        """Add workers, or remove those with the highest indexes, until `size` remain."""
        staying = self.staying
        for member in staying[size:]:
            member.leave(now)
        taken = {member.index for member in self.members} | {left.index for left in self._left}
        missing = max(0, size - len(staying))
        free = [index for index in range(len(taken) + missing) if index not in taken]
        new = [
            WorkerSupervisor(
                index, settings=self._settings, source=self._source, events=self._events
            )
            for index in free[:missing]
        ]
        if new:
            self.members = sorted([*self.members, *new], key=lambda member: member.index)

    def restart(self, commands: Iterable[RestartCommand], now: float) -> None:
        by_index = {command.worker: command for command in commands}
        for member in self.members:
            if member.index in by_index:
                member.restart(by_index[member.index], now)

    def cordon(self, commands: Iterable[CordonCommand], now: float) -> None:
        """Cordon the workers named in `commands`, and lift the cordon of all others."""
        by_index = {command.worker: command for command in commands}
        for member in self.members:
            member.cordon(by_index.get(member.index), now)

    def vacate(self, commands: Iterable[MachineCommand], now: float) -> None:
        """Drain the workers on the machines in `commands`, and place waiting workers elsewhere."""
        by_node = {command.node: command for command in commands}
        if by_node.keys() != self._closed:
            self._closed = frozenset(by_node)
            self._source.exclude_nodes(self._closed)
            for member in self.members:
                member.request_other_node(now)
        for member in self.members:
            member.leave_machine(by_node, now)

    def turn(self, now: float) -> None:
        """Run one turn of every worker, and remove those that have left."""
        for member in self.members:
            member.turn(now)
            if member.is_gone:
                self._accepted_of_the_left += member.accepted
                self._episodes_of_the_left = [*self._episodes_of_the_left, *member.record.episodes]
                self._info_of_the_left = [*self._info_of_the_left, *member.record.info]
                # Listed twice for an instant: a concurrent report must not miss the worker.
                self._left = [*self._left, member.report(0)]
                self.members = [other for other in self.members if other is not member]

    def pop_statistics(self) -> tuple[list[EpisodeWindow], list[InfoWindow]]:
        """Return the statistics of episodes, and values of `info`, since the last call."""
        episodes, self._episodes_of_the_left = self._episodes_of_the_left, []
        info, self._info_of_the_left = self._info_of_the_left, []
        for record in [member.record for member in self.members]:
            windows, record.episodes = record.episodes, []
            values, record.info = record.info, []
            episodes += windows
            info += values
        return episodes, info

    def reports(self, announced_step: int) -> list[WorkerReport]:
        """Return the reports of all workers, including final reports of those that left."""
        return [*(member.report(announced_step) for member in self.members), *self._left]

    def discard_delivered(self, reports: list[WorkerReport]) -> None:
        """Forget the workers that left and whose final `reports` were delivered."""
        known = {report.incarnation for report in reports}
        self._left = [report for report in self._left if report.incarnation not in known]
