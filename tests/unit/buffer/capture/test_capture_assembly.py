"""Captured calls become sequences in which each token that the model wrote counts once."""

from hypothesis import given
from hypothesis import strategies as st

from buffer.capture.rules import IGNORED, IGNORED_LOGPROB, assemble
from rolldeck.captures import Answer, CallPush, Drawn


def answer(*tokens: int, version: int | None = 3) -> Answer:
    versions = [] if version is None else [Drawn(epoch=1, step=version, tokens=len(tokens))]
    logprobs = [-token / 10 for token in tokens]
    return Answer(tokens=list(tokens), logprobs=logprobs, versions=versions)


def call(*prompt: int, answers: list[Answer] | None = None, gap: str = "") -> CallPush:
    return CallPush(
        key="k", kind="chat", prompt_tokens=list(prompt), answers=answers or [], gap=gap
    )


def test_a_conversation_is_one_sequence_and_only_the_answers_are_trained_on() -> None:
    made = assemble([call(1, 2, answers=[answer(3)]), call(1, 2, 3, 4, answers=[answer(5, 6)])])

    (sequence,) = made.sequences
    assert sequence.tokens == [1, 2, 3, 4, 5, 6]
    assert sequence.masks == [IGNORED, IGNORED, 3, IGNORED, 5, 6]
    assert sequence.logprobs == [1.0, 1.0, -0.3, 1.0, -0.5, -0.6]
    assert sequence.answers == [(0, 0), (1, 0)]


def test_a_rewritten_context_begins_another_sequence() -> None:
    made = assemble([call(1, 2, answers=[answer(3)]), call(9, 2, 3, answers=[answer(5)])])

    assert [sequence.tokens for sequence in made.sequences] == [[1, 2, 3], [9, 2, 3, 5]]
    assert made.sequences[1].masks == [IGNORED, IGNORED, IGNORED, 5]


def test_a_shared_beginning_is_trained_on_in_the_first_of_two_sequences() -> None:
    made = assemble(
        [
            call(1, answers=[answer(2)]),
            call(1, 2, 7, answers=[answer(3)]),
            call(1, 2, 8, answers=[answer(4)]),
        ]
    )

    assert [sequence.masks for sequence in made.sequences] == [
        [IGNORED, 2, IGNORED, 3],
        [IGNORED, IGNORED, IGNORED, 4],
    ]


def test_several_answers_to_a_call_are_separate_sequences() -> None:
    made = assemble([call(1, answers=[answer(2), answer(3)]), call(1, 3, 5, answers=[answer(6)])])

    assert [sequence.tokens for sequence in made.sequences] == [[1, 2], [1, 3, 5, 6]]
    assert [sequence.answers for sequence in made.sequences] == [[(0, 0)], [(0, 1), (1, 0)]]


def test_a_gap_is_listed_and_nothing_is_made_up_for_it() -> None:
    made = assemble([call(gap="no token ids"), call(1, 2, 3, answers=[answer(4)])])

    assert made.gaps == ["call 0: no token ids"]
    assert [sequence.masks for sequence in made.sequences] == [[IGNORED, IGNORED, IGNORED, 4]]


def test_the_oldest_version_counts_and_an_unknown_one_makes_all_unknown() -> None:
    known = [call(1, answers=[answer(2, version=7)]), call(1, 2, answers=[answer(3, version=5)])]

    assert assemble(known).oldest == (1, 5)
    assert assemble([*known, call(9, answers=[answer(1, version=None)])]).oldest is None
    assert assemble([]).oldest is None


@st.composite
def sessions(draw: st.DrawFn) -> list[CallPush]:
    """Calls whose prompts continue an earlier call, or none."""
    tokens = st.lists(st.integers(0, 3), max_size=3)
    calls: list[CallPush] = []
    ends: list[tuple[int, ...]] = [()]
    for _ in range(draw(st.integers(0, 8))):
        prompt = (*draw(st.sampled_from(ends)), *draw(tokens))
        answers = [answer(*draw(tokens)) for _ in range(draw(st.integers(1, 3)))]
        calls.append(call(*prompt, answers=answers))
        ends += [(*prompt, *answer.tokens) for answer in answers]
    return calls


@given(sessions())
def test_every_answer_is_trained_on_exactly_once(calls: list[CallPush]) -> None:
    made = assemble(calls)

    written = sum(len(answer.tokens) for call in calls for answer in call.answers)
    trained = sum(mask != IGNORED for sequence in made.sequences for mask in sequence.masks)
    assert trained == written
    for sequence in made.sequences:
        for token, mask, logprob in zip(
            sequence.tokens, sequence.masks, sequence.logprobs, strict=True
        ):
            assert mask in {IGNORED, token}
            assert logprob == (IGNORED_LOGPROB if mask == IGNORED else -token / 10)


@given(sessions())
def test_every_answer_is_in_a_sequence_that_is_its_prompt_and_itself(
    calls: list[CallPush],
) -> None:
    made = assemble(calls)

    held = {place for sequence in made.sequences for place in sequence.answers}
    assert held == {
        (number, index) for number, call in enumerate(calls) for index in range(len(call.answers))
    }
    for sequence in made.sequences:
        number, index = sequence.answers[-1]
        last = calls[number]
        assert sequence.tokens == [*last.prompt_tokens, *last.answers[index].tokens]
