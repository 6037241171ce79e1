"""Fragments contain every step once, with its outcome, for any number of slots."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from one_slot_cutter import OneSlotCutter, Outcome, obs_of

from buffer.ingest.rules.fragments import check
from rolldeck.wire import Fragment, unpack_array
from rollouts.fleet.steps.fragments import FragmentCutter, NotObserved
from rollouts.fleet.steps.step_columns import Outcomes
from tests.property_budget import examples

NAMES = ["w0-0@a", "w0-1@a", "w0-2@a"]


class OneOfThree:
    """The middle slot of a builder of three, with the interface of the builder of one slot."""

    def __init__(self, length: int) -> None:
        self.whole = FragmentCutter(
            slots=NAMES,
            environment="gymnasium:X-v0",
            worker="w0@a",
            fragment_length=length,
            keys=["speed"],
        )

    @property
    def buffered(self) -> int:
        return int(self.whole.acted[1])

    def observe(
        self, obs: NDArray[Any], *, outcome: Outcome | None = None, new_episode: str | None = None
    ) -> Fragment | None:
        if outcome is None:
            self.whole.begin(1, obs, episode=new_episode or "")
            return None
        outcomes = Outcomes(
            np.array([outcome.reward]),
            np.array([outcome.terminated]),
            np.array([outcome.truncated]),
            np.array([[outcome.speed]], dtype=np.float32),
            {} if outcome.final_obs is None else {0: outcome.final_obs},
        )
        new = {} if new_episode is None else {0: new_episode}
        cut = self.whole.observe(np.array([1]), obs[None], outcomes, new_episodes=new)
        return cut[0][1] if cut else None

    def act(
        self,
        action: int,
        *,
        logprob: float,
        value: float,
        policy_step: int,
        state: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self.whole.act(
            np.array([1]),
            actions=np.array([action]),
            logprobs=np.array([logprob], dtype=np.float32),
            values=np.array([value], dtype=np.float32),
            policy_step=policy_step,
            state={name: rows[None] for name, rows in (state or {}).items()},
        )

    def abort(self) -> None:
        self.whole.abort(1)

    def flush(self) -> Fragment | None:
        return self.whole.flush(1)

    def enter_epoch(self, epoch: int) -> int:
        return self.whole.enter_epoch(epoch)

    def drop_stale(self, *, policy_step: int, max_staleness: int) -> int:
        return self.whole.drop_stale(policy_step=policy_step, max_staleness=max_staleness)


def make_cutter(length: int = 4) -> OneOfThree:
    cutter = OneOfThree(length)
    cutter.enter_epoch(1)
    return cutter


def act(cutter: OneOfThree, number: int, *, policy_step: int = 0) -> None:
    cutter.act(number % 2, logprob=-0.1 * number, value=float(number), policy_step=policy_step)


def array(fragment: Fragment, name: str) -> list[Any]:
    values: list[Any] = unpack_array(fragment.arrays[name]).tolist()
    return values


def golden() -> list[Fragment]:
    """Steps 1 to 9 with rewards r1 = 1 … r9 = 9; the episode ends after step 6."""
    cutter = make_cutter(4)
    fragments = []
    cutter.observe(obs_of(1), new_episode="first")
    for number in range(1, 10):
        act(cutter, number)
        ends = number == 6
        outcome = Outcome(float(number), terminated=ends, final_obs=obs_of(100) if ends else None)
        fragment = cutter.observe(
            obs_of(number + 1), outcome=outcome, new_episode="second" if ends else None
        )
        fragments += [fragment] if fragment else []
    return fragments


def test_the_golden_stream_is_cut_into_two_fragments_of_four_steps() -> None:
    one, two = golden()

    assert array(one, "reward") == [1, 2, 3, 4]
    assert array(two, "reward") == [5, 6, 7, 8]
    assert (one.number, two.number) == (0, 1)
    assert (one.contiguous, two.contiguous) == (False, True)


def test_the_golden_stream_shifts_ends_to_the_previous_step() -> None:
    one, two = golden()

    assert array(one, "first") == [True, False, False, False]
    assert array(two, "first") == [False, False, True, False]
    assert array(one, "terminated") == [False] * 4
    assert array(two, "terminated") == [False, True, False, False]
    assert array(two, "truncated") == [False] * 4
    assert (array(two, "final_step"), array(two, "final_obs")) == ([1], [[100]])
    assert (two.episode_ids, array(two, "episode_index")) == (["first", "second"], [0, 0, 1, 1])


def test_a_fragment_ends_with_the_observation_that_the_next_one_starts_with() -> None:
    one, two = golden()

    assert array(one, "next_obs") == array(two, "obs")[0] == [5]
    assert array(one, "obs") == [[1], [2], [3], [4]]
    assert array(two, "next_obs") == [9]


def test_a_fragment_has_logprobs_and_values_of_the_sampling_policy() -> None:
    one, _ = golden()

    assert array(one, "behavior_logprob") == pytest.approx([-0.1, -0.2, -0.3, -0.4])
    assert array(one, "value") == [1, 2, 3, 4]
    assert array(one, "action") == [1, 0, 1, 0]


def test_a_fragment_names_the_oldest_and_the_newest_version_in_it() -> None:
    cutter = make_cutter(3)
    cutter.observe(obs_of(0), new_episode="e")
    fragment = None
    for number, version in enumerate([4, 5, 7]):
        act(cutter, number, policy_step=version)
        fragment = cutter.observe(obs_of(number + 1), outcome=Outcome(0.0))

    assert fragment is not None
    assert (fragment.version_min, fragment.version_max) == (4, 7)
    assert array(fragment, "policy_step") == [4, 5, 7]


def test_recurrent_state_is_kept_for_the_first_step_only() -> None:
    cutter = make_cutter(2)
    cutter.observe(obs_of(0), new_episode="e")
    cutter.act(0, logprob=0.0, value=0.0, policy_step=0, state={"h": np.array([1.0])})
    cutter.observe(obs_of(1), outcome=Outcome(0.0))
    cutter.act(0, logprob=0.0, value=0.0, policy_step=0, state={"h": np.array([2.0])})
    fragment = cutter.observe(obs_of(2), outcome=Outcome(0.0))

    assert fragment is not None
    assert array(fragment, "in_state.h") == [1.0]


def test_a_new_epoch_drops_the_partial_buffer_with_a_count() -> None:
    cutter = make_cutter(4)
    cutter.observe(obs_of(0), new_episode="e")
    act(cutter, 0)
    cutter.observe(obs_of(1), outcome=Outcome(1.0))
    act(cutter, 1)

    assert cutter.enter_epoch(2) == 1
    assert cutter.enter_epoch(2) == 0

    # The outcome of a dropped step is ignored.
    assert cutter.observe(obs_of(2), outcome=Outcome(99.0)) is None
    fragments = []
    for number in range(2, 6):
        act(cutter, number)
        fragments.append(cutter.observe(obs_of(number + 1), outcome=Outcome(float(number))))
    last = fragments[-1]
    assert last is not None
    assert (last.epoch, last.number, last.contiguous) == (2, 0, False)
    assert array(last, "reward") == [2, 3, 4, 5]
    assert array(last, "first") == [False] * 4


def test_the_age_of_the_first_step_decides_whether_a_buffer_is_too_old() -> None:
    cutter = make_cutter(4)
    cutter.observe(obs_of(0), new_episode="e")
    act(cutter, 0, policy_step=3)
    cutter.observe(obs_of(1), outcome=Outcome(0.0))
    act(cutter, 1, policy_step=5)

    assert cutter.drop_stale(policy_step=5, max_staleness=2) == 0
    # The second action has no outcome: it is no step.
    assert cutter.drop_stale(policy_step=6, max_staleness=2) == 1
    assert cutter.buffered == 0


@pytest.mark.parametrize("has_acted", [True, False])
def test_an_action_without_an_outcome_is_no_step_and_its_observation_is_the_final_one(
    *, has_acted: bool
) -> None:
    cutter = make_cutter(2)
    cutter.observe(obs_of(0), new_episode="e1")
    act(cutter, 0)
    cutter.observe(obs_of(1), outcome=Outcome(1.0))
    if has_acted:
        act(cutter, 1)
    cutter.abort()
    assert cutter.buffered == 1
    assert cutter.observe(obs_of(9), new_episode="e2") is None
    act(cutter, 2)
    fragment = cutter.observe(obs_of(10), outcome=Outcome(2.0))

    assert fragment is not None
    assert array(fragment, "truncated") == [True, False]
    assert array(fragment, "terminated") == [False, False]
    assert array(fragment, "reward") == [1, 2]
    assert array(fragment, "obs") == [[0], [9]]
    assert array(fragment, "first") == [True, True]
    assert (array(fragment, "final_step"), array(fragment, "final_obs")) == ([0], [[1]])
    assert fragment.episode_ids == ["e1", "e2"]
    check(fragment)


def test_an_episode_without_a_made_step_is_in_no_fragment() -> None:
    cutter = make_cutter(2)
    for number, episode in enumerate(["e1", "e2", "e3"]):
        cutter.observe(obs_of(number), new_episode=episode)
        act(cutter, number, policy_step=number)
        cutter.abort()
    assert (cutter.buffered, cutter.flush()) == (0, None)
    cutter.observe(obs_of(9), new_episode="e4")
    act(cutter, 9, policy_step=7)
    cutter.observe(obs_of(10), outcome=Outcome(1.0))
    fragment = flushed(cutter)

    assert fragment.episode_ids == ["e4"]
    assert (fragment.number, fragment.contiguous, fragment.version_min) == (0, False, 7)
    assert array(fragment, "obs") == [[9], [9]]
    check(fragment)


def test_an_abort_at_the_boundary_breaks_contiguity() -> None:
    cutter = make_cutter(1)
    cutter.observe(obs_of(0), new_episode="e1")
    act(cutter, 0)
    cutter.observe(obs_of(1), outcome=Outcome(1.0))
    cutter.abort()
    cutter.observe(obs_of(9), new_episode="e2")
    act(cutter, 1)
    fragment = cutter.observe(obs_of(10), outcome=Outcome(1.0))

    assert fragment is not None
    assert (fragment.number, fragment.contiguous) == (1, False)


def flushed(cutter: OneOfThree) -> Fragment:
    fragment = cutter.flush()
    assert fragment is not None
    return fragment


def test_a_stopped_slot_sends_its_partial_fragment_with_a_mask() -> None:
    cutter = make_cutter(4)
    cutter.observe(obs_of(0), new_episode="e")
    for number in range(2):
        act(cutter, number)
        cutter.observe(obs_of(number + 1), outcome=Outcome(number + 1.0, speed=-2.0 - number))
    fragment = flushed(cutter)

    assert fragment.steps == 4
    assert array(fragment, "mask") == [True, True, False, False]
    assert array(fragment, "obs") == [[0], [1], [1], [1]]
    assert array(fragment, "reward") == [1, 2, 0, 0]
    assert array(fragment, "info.speed") == [-2, -3, 0, 0]
    assert array(fragment, "first") == [True, False, False, False]
    assert array(fragment, "truncated") == [False, True, False, False]
    assert (array(fragment, "final_step"), array(fragment, "final_obs")) == ([1], [[2]])
    assert array(fragment, "next_obs") == [2]
    check(fragment)
    assert (cutter.flush(), cutter.buffered) == (None, 0)


def test_a_flush_behind_an_ending_adds_none() -> None:
    cutter = make_cutter(4)
    cutter.observe(obs_of(0), new_episode="e")
    act(cutter, 0)
    ended = Outcome(1.0, terminated=True, final_obs=obs_of(100))
    cutter.observe(obs_of(9), outcome=ended, new_episode="f")
    fragment = flushed(cutter)

    assert array(fragment, "terminated") == [True, False, False, False]
    assert array(fragment, "truncated") == [False] * 4
    assert (array(fragment, "final_obs"), array(fragment, "next_obs")) == ([[100]], [9])
    assert fragment.episode_ids == ["e"]
    check(fragment)


@pytest.mark.parametrize("is_aborted_before", [True, False])
def test_a_flush_leaves_out_an_action_without_an_outcome(*, is_aborted_before: bool) -> None:
    cutter = make_cutter(3)
    cutter.observe(obs_of(0), new_episode="e")
    act(cutter, 0)
    cutter.observe(obs_of(1), outcome=Outcome(1.0))
    act(cutter, 1)
    if is_aborted_before:
        cutter.abort()
    fragment = flushed(cutter)

    assert array(fragment, "mask") == [True, False, False]
    assert array(fragment, "reward") == [1, 0, 0]
    assert array(fragment, "truncated") == [True, False, False]
    assert (array(fragment, "final_step"), array(fragment, "final_obs")) == ([0], [[1]])
    assert array(fragment, "next_obs") == [1]
    check(fragment)


def test_fragments_after_a_flush_continue_the_numbers_and_are_not_contiguous() -> None:
    cutter = make_cutter(1)
    cutter.observe(obs_of(0), new_episode="e")
    act(cutter, 0)
    whole = cutter.observe(obs_of(1), outcome=Outcome(1.0))
    act(cutter, 1)
    assert cutter.flush() is None
    assert whole is not None
    cutter.observe(obs_of(5), new_episode="f")
    act(cutter, 1)
    after = cutter.observe(obs_of(6), outcome=Outcome(1.0))

    assert after is not None
    assert "mask" not in whole.arrays
    assert (whole.number, after.number, after.contiguous) == (0, 1, False)


def test_no_slot_acts_without_an_observation() -> None:
    cutter = make_cutter()

    with pytest.raises(NotObserved):
        act(cutter, 0)


endings = st.sampled_from(["goes on", "terminated", "truncated"])


@settings(max_examples=examples(80))
@given(length=st.integers(1, 7), stream=st.lists(endings, max_size=40))
def test_fragments_put_together_are_the_stream(length: int, stream: list[str]) -> None:
    cutter = make_cutter(length)
    fragments: list[Fragment] = []
    cutter.observe(obs_of(0), new_episode="0")
    for number, ending in enumerate(stream):
        act(cutter, number)
        ends = ending != "goes on"
        outcome = Outcome(
            float(number),
            terminated=ending == "terminated",
            truncated=ending == "truncated",
            final_obs=obs_of(1000 + number) if ends else None,
            speed=number + 0.5,
        )
        cut = cutter.observe(
            obs_of(number + 1), outcome=outcome, new_episode=str(number + 1) if ends else None
        )
        fragments += [cut] if cut else []

    whole = len(stream) // length * length
    joined = {
        name: [value for fragment in fragments for value in array(fragment, name)]
        for name in ("obs", "reward", "terminated", "truncated", "first", "info.speed")
    }
    finals = [
        (fragment.number * length + at, obs[0])
        for fragment in fragments
        if "final_step" in fragment.arrays
        for at, obs in zip(array(fragment, "final_step"), array(fragment, "final_obs"), strict=True)
    ]
    stored = stream[:whole]
    assert [fragment.number for fragment in fragments] == list(range(len(stream) // length))
    assert joined["obs"] == [[n] for n in range(whole)]
    assert joined["reward"] == list(range(whole))
    assert joined["info.speed"] == [n + 0.5 for n in range(whole)]
    assert joined["terminated"] == [ending == "terminated" for ending in stored]
    assert joined["truncated"] == [ending == "truncated" for ending in stored]
    assert joined["first"] == [n == 0 or stream[n - 1] != "goes on" for n in range(whole)]
    assert finals == [(n, 1000 + n) for n, ending in enumerate(stored) if ending != "goes on"]
    assert cutter.buffered == len(stream) - whole

    tail = cutter.flush()
    rest = [] if tail is None else np.array(array(tail, "reward"))[array(tail, "mask")].tolist()
    assert rest == list(range(whole, len(stream)))
    if tail is not None:
        check(tail)


class Pair:
    """A builder of three slots and three reference builders; their results must be equal."""

    def __init__(self, length: int) -> None:
        self.many = FragmentCutter(
            slots=NAMES, environment="e", worker="w0@a", fragment_length=length, keys=["speed"]
        )
        self.ones = [
            OneSlotCutter(slot=name, environment="e", worker="w0@a", fragment_length=length)
            for name in NAMES
        ]
        self.cut: list[tuple[Fragment, Fragment]] = []
        self.time = 0
        self.is_alive = [False] * 3
        self.can_act = [False] * 3
        self.is_acting = [False] * 3

    def begin(self, slots: list[int], _draw: Any) -> None:
        for slot in slots:
            if not self.is_alive[slot]:
                self.time += 1
                episode = f"{slot}/{self.time}"
                self.ones[slot].observe(obs_of(self.time), new_episode=episode)
                self.many.begin(slot, obs_of(self.time), episode=episode)
                self.is_alive[slot] = self.can_act[slot] = True

    def act(self, slots: list[int], draw: Any) -> None:
        chosen = [slot for slot in slots if self.can_act[slot]]
        self.time += 1
        step = draw(st.integers(self.time, self.time + 1))
        numbers = np.array([self.time * 10 + slot for slot in chosen], dtype=np.float32)
        for slot, number in zip(chosen, numbers.tolist(), strict=True):
            state = {"h": np.array([number])}
            self.ones[slot].act(
                int(number), logprob=-number, value=number, policy_step=step, state=state
            )
            self.can_act[slot], self.is_acting[slot] = False, True
        self.many.act(
            np.array(chosen, dtype=np.intp),
            actions=numbers.astype(np.int64),
            logprobs=-numbers,
            values=numbers,
            policy_step=step,
            state={"h": numbers[:, None].astype(np.float64)},
        )

    def observe(self, slots: list[int], draw: Any) -> None:
        chosen = [slot for slot in slots if self.is_acting[slot]]
        self.time += 1
        endings = [draw(endings_of_a_step) for _ in chosen]
        speeds = [draw(st.sampled_from([math.nan, float(self.time), -1.5])) for _ in chosen]
        obs = np.stack([obs_of(self.time * 10 + slot) for slot in chosen]) if chosen else None
        finals, new = {}, {}
        cut: dict[int, Fragment] = {}
        for row, (slot, ending) in enumerate(zip(chosen, endings, strict=True)):
            final = obs_of(-self.time) if ending != "goes on" else None
            if final is not None:
                finals[row], new[row] = final, f"{slot}/{self.time}"
            outcome = Outcome(
                float(self.time),
                ending == "terminated",
                ending == "truncated",
                final,
                speeds[row],
            )
            one = self.ones[slot].observe(
                obs_of(self.time * 10 + slot), outcome=outcome, new_episode=new.get(row)
            )
            cut |= {slot: one} if one else {}
            self.can_act[slot], self.is_acting[slot] = True, False
        if obs is not None:
            outcomes = Outcomes(
                np.full(len(chosen), float(self.time)),
                np.array([ending == "terminated" for ending in endings]),
                np.array([ending == "truncated" for ending in endings]),
                np.array(speeds, dtype=np.float32)[:, None],
                finals,
            )
            many = dict(self.many.observe(np.array(chosen), obs, outcomes, new_episodes=new))
            assert many.keys() == cut.keys()
            for slot, fragment in cut.items():
                self._compare(fragment, many[slot])

    def abort(self, slots: list[int], _draw: Any) -> None:
        for slot in slots[:1]:
            self.ones[slot].abort()
            self.many.abort(slot)
            self.is_alive[slot] = self.can_act[slot] = self.is_acting[slot] = False

    def flush(self, slots: list[int], _draw: Any) -> None:
        for slot in slots[:1]:
            self._compare(self.ones[slot].flush(), self.many.flush(slot))
            self.is_alive[slot] = self.can_act[slot] = self.is_acting[slot] = False

    def drop(self, slots: list[int], _draw: Any) -> None:
        for slot in slots[:1]:
            assert self.ones[slot].drop() == self.many.drop(slot)

    def forget(self, _slots: list[int], draw: Any) -> None:
        stale = {"policy_step": self.time, "max_staleness": draw(st.integers(0, 20))}
        dropped = sum(one.drop_stale(**stale) for one in self.ones)
        assert dropped == self.many.drop_stale(**stale)

    def _compare(self, one: Fragment | None, many: Fragment | None) -> None:
        assert (one is None) == (many is None)
        if one is not None and many is not None:
            self.cut.append((one, many))


endings_of_a_step = st.sampled_from(["goes on"] * 5 + ["terminated", "truncated"])
verbs = st.sampled_from(["begin", "act", "act", "act", "observe", "observe", "observe", "abort"])
rare = st.one_of(verbs, verbs, verbs, st.sampled_from(["drop", "forget", "flush"]))


@settings(max_examples=examples(150))
@given(
    data=st.data(),
    length=st.integers(1, 5),
    turns=st.lists(st.tuples(rare, st.permutations([0, 1, 2]), st.integers(1, 3)), max_size=80),
)
def test_many_slots_have_the_fragments_of_single_ones(
    data: st.DataObject, length: int, turns: list[tuple[str, list[int], int]]
) -> None:
    pair = Pair(length)
    pair.begin([0, 1, 2], data.draw)

    for verb, order, count in turns:
        getattr(pair, verb)(order[:count], data.draw)
        assert [one.buffered for one in pair.ones] == pair.many.acted.tolist()

    for one, many in pair.cut:
        assert one == many
