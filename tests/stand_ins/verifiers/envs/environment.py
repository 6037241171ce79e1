"""An environment of several turns, and the rubric that scores it."""

import signal
from collections.abc import Callable
from typing import Any

from verifiers.clients import Client
from verifiers.errors import Error, OverlongPromptError
from verifiers.types import Message

Reply = Callable[[list[Message]], list[Message]]


class Rubric:
    """Sum of the values that its functions give for a completion."""

    def __init__(self, funcs: list[Callable[..., float]]) -> None:
        self.funcs = funcs
        self.cleaned = 0

    async def score_group(self, states: list[dict[str, Any]]) -> None:
        """Write each state's reward, and the value of each function."""
        for state in states:
            arguments = {name: state[name] for name in ("prompt", "completion", "answer")}
            values = {func.__name__: func(**arguments) for func in self.funcs}
            state["reward"], state["metrics"] = sum(values.values()), values

    async def cleanup(self, state: dict[str, Any]) -> None:
        """Count the call."""
        del state
        self.cleaned += 1


class Environment:
    """Environment of rows, a reply function and a rubric."""

    def __init__(
        self,
        *,
        dataset: list[dict[str, Any]],
        eval_dataset: list[dict[str, Any]],
        rubric: Rubric,
        max_turns: int = 1,
        reply: Reply | None = None,
        tool_defs: list[Any] | None = None,
    ) -> None:
        self._dataset, self._eval_dataset = dataset, eval_dataset
        self.rubric, self.tool_defs = rubric, tool_defs
        self._max_turns, self._reply = max_turns, reply
        # The original does this too; only the main thread may.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def get_dataset(self) -> list[dict[str, Any]]:
        """Return the rows to train on."""
        return self._dataset

    def get_eval_dataset(self) -> list[dict[str, Any]]:
        """Return the rows to evaluate on."""
        return self._eval_dataset

    async def rollout(
        self, row: dict[str, Any], client: Client, model: str, sampling_args: Any = None
    ) -> dict[str, Any]:
        """Run the turns of a rollout; an error ends it and is stored in its state."""
        assert isinstance(client, Client)
        messages = [Message(**turn) for turn in row["prompt"]]
        state = {**row, "trajectory": [], "error": None, "is_truncated": False}
        start = len(messages)
        try:
            while len(state["trajectory"]) < self._max_turns:
                if state["trajectory"] and self._reply:
                    messages = messages + self._reply(messages)
                response = await client.get_response(
                    prompt=messages, model=model, sampling_args=sampling_args, state=state
                )
                state["trajectory"].append(response)
                messages = [*messages, Message("assistant", response.message.content)]
        except OverlongPromptError:
            state["is_truncated"] = True
        except Error as error:
            state["error"] = error
        state["completion"] = messages[start:]
        return state
