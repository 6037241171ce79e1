"""Host of one environment of verifiers 0.4, in the interpreter of that package.

A worker starts this file with the interpreter that an administrator configured. It imports nothing
of Rolldeck. Standard input and output carry one JSON object per line:

    → {"id": 1, "call": "load", "env": {…}, "select": {…}, "eval_select": {…}, …}
    ← {"id": 1, "result": {"verifiers": "0.4.0", "tasks": {"train": 100, "eval": 20}}}
    → {"id": 2, "call": "run", "mode": "train", "row": 7, "rollouts": ["a", "b"], …}
    ← {"id": 2, "result": {"task": "…", "rollouts": [{…}, {…}]}}
    ← {"id": 2, "error": {"kind": "rollout_failed", "message": "…"}}

Calls run concurrently. The process ends with its standard input.
"""

import asyncio
import json
import math
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

MESSAGE_BYTES = 256 << 20
CLOSE_SECONDS = 1.0
CHAT = "rolldeck_chat"
INFINITE = {"include": {"idx": ["0:1024"]}}
"""Tasks of a task set without end, unless the lesson selects others."""

Json = dict[str, Any]
FAILED: Json = {"reward": 0.0, "metrics": {}, "is_truncated": False, "branches": []}


class CallFailed(Exception):
    """A call failed; `kind` is the kind of the event."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Host:
    """The loaded environment and its calls."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        self._send = send
        self._env: Any = None
        self._tasks: dict[str, list[Any]] = {}
        self._serving: asyncio.Task[None] | None = None
        self._defaults: Json = {}
        self._seconds = 0.0
        self._room = asyncio.Semaphore()

    async def handle(self, message: Json) -> None:
        """Run a call and send its result or its error."""
        answer: Json = {"id": message["id"]}
        try:
            calls = {"load": self._load, "run": self._run}
            answer["result"] = await calls[message["call"]](message)
        except CallFailed as failure:
            answer["error"] = {"kind": failure.kind, "message": str(failure)}
        except Exception as error:  # noqa: BLE001 reported to the worker
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            answer["error"] = {"kind": "environment_failed", "message": text}
        self._send(answer)

    async def close(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving}, timeout=CLOSE_SECONDS)

    async def _load(self, message: Json) -> Json:
        try:
            import verifiers
            import verifiers.v1 as vf
        except ImportError as error:
            raise CallFailed(
                "dependency_missing",
                f"{sys.executable} needs verifiers 0.4 with verifiers.v1: {error}",
            ) from error
        try:
            config = vf.resolve_env_config(_with_defaults(message["env"], message["max_turns"]))
            self._env = vf.load_environment(config)
            self._tasks = {
                mode: list(_selected(self._env.taskset, message[field], vf.SelectConfig))
                for mode, field in (("train", "select"), ("eval", "eval_select"))
            }
        except ImportError as error:
            raise CallFailed("dependency_missing", f"{sys.executable}: {error}") from error
        except (ValueError, TypeError) as error:
            raise CallFailed("environment_kwargs", str(error)) from error
        self._defaults = {"renderer": message["renderer"]}
        self._seconds = message["seconds"]
        self._room = asyncio.Semaphore(message["max_concurrent"])
        await self._serve()
        sizes = {mode: len(tasks) for mode, tasks in self._tasks.items()}
        return {"verifiers": verifiers.__version__, "tasks": sizes}

    async def _serve(self) -> None:
        """Start the tool servers and the interception that all rollouts share."""
        loop = asyncio.get_running_loop()
        is_ready: asyncio.Future[None] = loop.create_future()

        async def serve() -> None:
            async with self._env.serving():
                is_ready.set_result(None)
                await asyncio.Event().wait()

        self._serving = asyncio.create_task(serve())
        done, _ = await asyncio.wait({self._serving, is_ready}, return_when=asyncio.FIRST_COMPLETED)
        if self._serving in done:
            await self._serving

    async def _run(self, message: Json) -> Json:
        task = self._tasks[message["mode"]][message["row"]]
        rollouts = await asyncio.gather(
            *(self._rollout(task, key, message) for key in message["rollouts"])
        )
        return {"task": task.key, "rollouts": rollouts}

    async def _rollout(self, task: Any, key: str, message: Json) -> Json:
        import verifiers.v1 as vf

        client = vf.TrainClientConfig(
            base_url=message["base_url"],
            api_key_var=message["api_key_var"],
            renderer_model_name=message["tokenizer"],
            **self._defaults,
        )
        sampling = vf.SamplingConfig(**message["sampling"], extra_args={"rollout": key})
        context = vf.ModelContext(model=message["model"], client=client, sampling=sampling)
        async with self._room:
            try:
                async with asyncio.timeout(self._seconds):
                    slot = self._env.slots(task)[0]
                    return _described(await self._env.run_slot(slot, context))
            except TimeoutError:
                return FAILED | {"error": f"not completed within {self._seconds:g} s"}


def _with_defaults(env: Json, max_turns: int | None) -> Json:
    """Return the configuration with a local runtime, and our chat loop where no harness is set."""
    import verifiers.v1 as vf

    taskset = env["taskset"]["id"]
    roles = vf.env_config_type(taskset, env.get("id", "")).model_fields
    defaults: Json = {"runtime": {"type": "subprocess"}}
    if vf.default_harness_id(taskset) == "bash":
        defaults["harness"] = {"id": CHAT}
    if max_turns is not None:
        defaults["max_turns"] = max_turns
    named = {
        name: defaults | dict(env.get(name) or {})
        for name, field in roles.items()
        if isinstance(field.default, vf.AgentConfig)
    }
    return env | named


def _selected(taskset: Any, select: Json | None, config: Any) -> Any:
    chosen = select or (INFINITE if taskset.INFINITE else {})
    view = taskset.select(config.model_validate(chosen))
    if not view.bounded:
        raise ValueError("the task set is infinite; select.include.idx must have an end")
    return view


def _described(episode: Any) -> Json:
    """Return a rollout: its reward, its metrics, and the token runs of each trained branch."""
    if not episode.ok:
        errors = [error for one in (episode, *episode.traces) for error in one.errors]
        if not errors:
            return FAILED | {"error": "the episode failed without an error"}
        return FAILED | {"error": f"{errors[-1].type}: {errors[-1].message}"}
    trained = [trace for trace in episode.traces if trace.agent.trainable]
    if len(trained) != 1:
        names = ", ".join(trace.agent.name for trace in trained) or "none"
        return FAILED | {"error": f"{len(trained)} runs of trained agents ({names}), must be 1"}
    [trace] = trained
    is_scored = not trace.rewards or any(one is not None for one in trace.rewards.values())
    if is_scored and not math.isfinite(trace.reward):
        return FAILED | {"error": f"the reward is {trace.reward}, must be finite"}
    branches = [
        branch for branch in trace.branches if branch.trainable and any(branch.sampled_mask)
    ]
    metrics = {"turns": float(trace.num_turns), "sequences": float(len(branches))}
    metrics |= {name: one.score for name, one in trace.rewards.items() if one}
    metrics |= {name: value for name, value in trace.metrics.items() if value is not None}
    return {
        "error": "",
        "reward": trace.reward if is_scored else None,
        "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
        "is_truncated": trace.is_truncated,
        "branches": [
            [{"tokens": node.token_ids, "mask": node.mask} for node in branch.nodes]
            for branch in branches
        ],
    }


async def main() -> None:
    """Serve calls until standard input ends."""
    # Libraries print to standard output; only this descriptor carries messages.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: Json) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    host = Host(send)
    reader = asyncio.StreamReader(limit=MESSAGE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        call = asyncio.create_task(host.handle(json.loads(line)))
        running.add(call)
        call.add_done_callback(running.discard)
    await host.close()
    os._exit(0)  # without waiting for threads of the environment


if __name__ == "__main__":
    asyncio.run(main())
