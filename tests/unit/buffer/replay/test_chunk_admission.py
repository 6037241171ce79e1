"""The admission limit that chunks need, compared with simulated fleets."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from buffer.ingest.rules.waiting import WaitingFragment, cut
from runs.config.rules.sections import admission_shortage
from runs.lifecycle.rules import admission_capacity


@dataclass
class Buffer:
    """A buffer that forms chunks and batches, and admits fragments, by the platform's rules."""

    slots: int
    length: int
    batch_size: int
    batches_ahead: float
    waiting: list[list[WaitingFragment]] = field(default_factory=list)
    accepted: int = 0
    queued: int = 0
    trained: int = 0

    def __post_init__(self) -> None:
        self.waiting = [[] for _ in range(self.slots)]
        self._numbers = [0] * self.slots

    @property
    def room(self) -> int:
        return admission_capacity(
            batches_ahead=self.batches_ahead,
            trained=self.trained,
            per_batch=self.batch_size,
            accepted=self.accepted,
            running=0,
        )

    def push(self, slot: int) -> None:
        number = self._numbers[slot]
        self._numbers[slot] += 1
        self.accepted += 1
        fragments = [*self.waiting[slot], WaitingFragment(number, number, number > 0)]
        chunks = cut(fragments, length=self.length).chunks
        placed = {item for chunk in chunks for item in chunk}
        self.waiting[slot] = [one for one in fragments if one.id not in placed]
        self.queued += len(placed)

    def train(self) -> None:
        while self.queued >= self.batch_size:
            self.queued -= self.batch_size
            self.trained += 1


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    length = draw(st.integers(1, 6))
    return Buffer(
        slots=draw(st.integers(1, 8)),
        length=length,
        batch_size=length * draw(st.integers(1, 6)),
        batches_ahead=draw(st.integers(1, 6) | st.floats(0.1, 6)),
    )


def has_room(buffer: Buffer) -> bool:
    is_whole = isinstance(buffer.batches_ahead, int)
    shortage = admission_shortage(
        slots=buffer.slots,
        length=buffer.length,
        batch_size=buffer.batch_size,
        max_staleness=int(buffer.batches_ahead) - 1 if is_whole else None,
        off_policy_tolerance=buffer.batches_ahead,
    )
    return shortage is None


@given(buffers(), st.data())
def test_a_fleet_with_enough_admission_trains_with_any_fast_slots(
    buffer: Buffer, data: st.DataObject
) -> None:
    if not has_room(buffer):
        return
    favourite = data.draw(st.lists(st.integers(0, buffer.slots - 1), min_size=1, max_size=20))

    for turn in range(1000):
        if buffer.trained >= 3:
            break
        assert buffer.room
        buffer.push(favourite[turn % len(favourite)])
        buffer.train()

    assert buffer.trained >= 3


@given(buffers())
def test_slots_of_the_same_pace_stop_a_fleet_exactly_below_the_limit(buffer: Buffer) -> None:
    expected = has_room(buffer)

    # The slot with the shortest incomplete chunk continues: the worst order.
    while buffer.room and buffer.trained < 3:
        buffer.push(min(range(buffer.slots), key=lambda slot: len(buffer.waiting[slot])))
        buffer.train()

    assert (buffer.trained >= 3) == expected
