"""The vectorized fragment builder agrees with the reference builder of one slot."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from one_slot_cutter import OneSlotCutter, Outcome, obs_of

from rolldeck.wire import Fragment
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.step_columns import Outcomes
from tests.property_budget import examples

NAMES = ["w0-0@a", "w0-1@a", "w0-2@a"]


class Pair:
    """A builder of three slots and three reference builders; their results must be equal."""

    def __init__(self, length: int) -> None:
        self.many = FragmentCutter(
            slots=NAMES, environment="e", worker="w0@a", fragment_length=length
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
        obs = np.stack([obs_of(self.time * 10 + slot) for slot in chosen]) if chosen else None
        finals, new = {}, {}
        cut: dict[int, Fragment] = {}
        for row, (slot, ending) in enumerate(zip(chosen, endings, strict=True)):
            final = obs_of(-self.time) if ending != "goes on" else None
            if final is not None:
                finals[row], new[row] = final, f"{slot}/{self.time}"
            outcome = Outcome(
                float(self.time), ending == "terminated", ending == "truncated", final
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
