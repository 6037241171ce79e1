"""Task of Inspect whose samples are captured, each as a session of its own.

It runs in the environment `agents`. Settings are environment variables: the model as
``openai-api/rolldeck/MODEL``, ``ROLLDECK_BASE_URL`` and ``ROLLDECK_API_KEY``. It writes a JSON
object with the scores by session.
"""

import json
import os
import sys
from typing import Any

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import Generate, TaskState, solver, use_tools
from inspect_ai.tool import tool


@tool
def add() -> Any:
    async def execute(x: int) -> str:
        """Add one to a number.

        Args:
            x: Number.
        """
        return str(x + 1)

    return execute


def session_of(state: TaskState) -> str:
    return f"sample-{state.sample_id}-{state.epoch}"


@solver
def captured() -> Any:
    """Generate with the session of the sample in a header."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        headers = {"X-Rolldeck-Session": session_of(state)}
        return await generate(state, tool_calls="loop", extra_headers=headers)

    return solve


@scorer(metrics=[accuracy()])
def contains_answer() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        is_right = target.text in state.output.completion
        return Score(value=float(is_right), answer=session_of(state))

    return score


def main(model: str, *, has_tools: bool, is_streamed: bool, uses_responses: bool) -> None:
    """Run the task and write its scores to the output."""
    solvers = [use_tools(add()), captured()] if has_tools else [captured()]
    samples = [Sample(input=f"{x} plus 1", target=str(x + 1), id=x) for x in (1, 2)]
    options = {"responses_api": True} if uses_responses else {}
    (log,) = inspect_ai.eval(
        Task(dataset=samples, solver=solvers, scorer=contains_answer()),
        model=get_model(model, stream=is_streamed, **options),
        epochs=2,
        max_tokens=12,
        display="none",
        log_dir=os.environ["INSPECT_LOG_DIR"],
    )
    assert log.status == "success", log.error
    scores = {}
    for sample in log.samples or []:
        (score,) = (sample.scores or {}).values()
        scores[score.answer] = score.value
    sys.stdout.write(f"{json.dumps({'scores': scores})}\n")


if __name__ == "__main__":
    _, name, *flags = sys.argv
    main(
        name,
        has_tools="tools" in flags,
        is_streamed="stream" in flags,
        uses_responses="responses" in flags,
    )
