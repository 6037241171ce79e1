"""Tool calls whose JSON a chat template renders again stay in their sequence."""

import json
from typing import Any

import pytest

from buffer.capture.models import CaptureSession
from buffer.capture.rules import Assembled
from buffer.capture.services import assembled
from tests.contract.capture_setup import MODEL, group, on_a_port, stand_with, trained
from tests.stand_ins.scripted_chat import ScriptedChat, encoded, text_answer, tool_answer, written

pytestmark = pytest.mark.django_db(transaction=True)

CALLED = tool_answer(("add", '{"y":2,"x":"\\u00e9"}'), ("add", '{"x": 1,"y":3}'), text="so")
ANSWER = text_answer("done")
TOOLS: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": {}}}]


def captured(*arguments: str | None, stream: bool = False) -> Assembled:
    """Return the sequences of an agent that calls tools twice, and then reads the answer.

    Args:
        arguments: Arguments that the agent sends back instead of the first call's; None for those.
        stream: Whether the agent streams.
    """
    scripted = ScriptedChat(CALLED, CALLED, ANSWER)
    with on_a_port(scripted.app) as url, stand_with(f"{url}/v1") as stand:
        messages: list[Any] = [{"role": "user", "content": "add"}]
        for changed in (*arguments, None):
            answer: Any = CALLED
            create = stand.agent("one").chat.completions.create
            if stream:
                list(create(model=MODEL, messages=messages, tools=TOOLS, stream=True))
            else:
                completion = create(model=MODEL, messages=messages, tools=TOOLS)
                answer = completion.choices[0].message.model_dump(exclude_none=True)
            answer = json.loads(json.dumps(answer))
            if changed is not None:
                answer["tool_calls"][0]["function"]["arguments"] = changed
            messages += [answer, {"role": "tool", "tool_call_id": "call_0", "content": "{1}"}]
        made = assembled(CaptureSession.objects.get(name="one"))
        assert stand.score(one=1.0).sequences == len(made.sequences)
    return made


@pytest.mark.parametrize("stream", [False, True])
def test_the_tokens_of_a_tool_call_are_those_that_the_policy_sampled(stream: bool) -> None:
    made = captured(None, None, stream=stream)

    assert (made.repairs, len(made.sequences)) == (2, 1)
    assert trained(group(), 0) == encoded(written(CALLED) * 2 + written(ANSWER))


def test_arguments_in_the_agents_own_spelling_are_repaired() -> None:
    made = captured('{ "x" : "é", "y" : 2 }', None)

    assert (made.repairs, len(made.sequences)) == (2, 1)


@pytest.mark.parametrize("changed", ['{"x": "é", "y": 4}', '{"x": "é", "y": 2, "z": 0}', "{}"])
def test_changed_arguments_begin_a_new_sequence(changed: str) -> None:
    made = captured(changed, None)

    assert [len(one.answers) for one in made.sequences] == [1, 2]
    assert made.repairs == 1
