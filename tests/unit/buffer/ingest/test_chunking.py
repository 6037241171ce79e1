from hypothesis import given
from hypothesis import strategies as st

from buffer.ingest.rules.arrivals import WaitingFragment, cut


def waiting(
    *numbers: int, breaks: frozenset[int] | set[int] = frozenset()
) -> list[WaitingFragment]:
    """Return fragments whose ids are their numbers; those in `breaks` follow nothing."""
    return [WaitingFragment(number, number, number not in breaks) for number in numbers]


def test_a_chunk_is_cut_as_soon_as_it_is_complete() -> None:
    assert cut(waiting(0, breaks={0}), length=2) == ([], [])
    assert cut(waiting(0, 1, breaks={0}), length=2) == ([[0, 1]], [])
    assert cut(waiting(0, 1, 2, breaks={0}), length=2) == ([[0, 1]], [])


def test_every_fragment_alone_is_a_chunk_of_one() -> None:
    assert cut(waiting(4, 6, 7, breaks={6}), length=1) == ([[4], [6], [7]], [])


def test_fragments_that_arrive_out_of_order_are_sorted() -> None:
    assert cut(waiting(3, 1, 2), length=3) == ([[1, 2, 3]], [])


def test_fragments_before_a_break_never_complete_a_chunk() -> None:
    assert cut(waiting(0, 1, 2, breaks={0, 2}), length=3) == ([], [0, 1])


def test_fragments_before_a_gap_wait_for_the_missing_one() -> None:
    assert cut(waiting(0, 2, 3), length=2) == ([[2, 3]], [])


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)), st.integers(1, 4))
def test_every_fragment_has_one_state_and_every_chunk_is_consecutive(
    numbers: set[int], breaks: set[int], length: int
) -> None:
    fragments = waiting(*numbers, breaks=breaks)

    chunks = cut(fragments, length=length)

    placed = [item for chunk in chunks.chunks for item in chunk] + chunks.broken
    assert len(placed) == len(set(placed))
    assert set(placed) <= numbers
    for chunk in chunks.chunks:
        assert chunk == list(range(chunk[0], chunk[0] + length))
        assert not breaks & set(chunk[1:])
    # Nothing more can be cut from what waits, and nothing more is broken.
    rest = [fragment for fragment in fragments if fragment.id not in placed]
    assert cut(rest, length=length) == ([], [])
