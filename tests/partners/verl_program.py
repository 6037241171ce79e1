"""Programs of the environment `verl`: verl's replay buffer on TransferQueue, with our backend.

``fill RUN`` stores the samples of finished and unfinished prompts, and waits to be killed;
``sample RUN SIZE`` samples batches with verl's own buffers until too few prompts are left.
"""

import hashlib
import json
import os
import sys
import time
from typing import Any

import psutil
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.utils.import_utils import load_extern_type

from rolldeck.integrations.transfer_queue import register

HOOK = "rolldeck.integrations.transfer_queue.register"
PROMPTS, SESSIONS = 6, 2


def report(**fields: Any) -> None:
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


def start(run: str) -> None:
    hook = {"worker_process_setup_hook": HOOK}
    ray.init(num_cpus=8, include_dashboard=False, runtime_env=hook, log_to_driver=False)
    register()
    settings = {"url": os.environ["ROLLDECK_URL"], "run": run}
    tq.init(OmegaConf.create({"backend": {"storage_backend": "rolldeck", "rolldeck": settings}}))


def fields_of(prompt: int, session: int) -> dict[str, torch.Tensor]:
    """Return the fields of a trajectory, as verl's agent loop stores them."""
    random = torch.Generator().manual_seed(10 * prompt + session)
    length = 3 + prompt
    return {
        "responses": torch.randint(0, 1000, (length,), generator=random),
        "rollout_log_probs": -torch.rand(length, generator=random),
        "rm_scores": torch.rand(length, generator=random),
    }


def digest_of(data: TensorDict) -> str:
    whole = hashlib.sha256()
    for name in ("responses", "rollout_log_probs", "rm_scores"):
        for row in range(len(data)):
            whole.update(data[name][row].contiguous().numpy().tobytes())
    return whole.hexdigest()


def fill(run: str) -> None:
    start(run)
    for prompt in range(PROMPTS):
        status = "running" if prompt == PROMPTS - 1 else "finished"
        tag = {"is_prompt": True, "status": status, "global_steps": PROMPTS - prompt}
        for session in range(SESSIONS):
            tags = {"seq_len": 3 + prompt}
            tq.kv_put(f"p{prompt}_{session}_0", "train", fields_of(prompt, session), tag=tags)
        tq.kv_put(f"p{prompt}", "train", tag=tag)
    report(stored=True, children=[one.pid for one in psutil.Process().children(recursive=True)])
    time.sleep(600)


def buffer_of(sampler: type[ReplayBuffer], mode: str) -> ReplayBuffer:
    """Return a replay buffer as verl's trainer makes one of a custom sampler."""
    return sampler(
        trainer_mode=mode,
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create({}),
        poll_interval=0.1,
    )


def sample(run: str) -> None:
    start(run)
    named = load_extern_type("pkg://verl.trainer.ppo.v1.replay_buffer", "ReplayBufferAsync")
    assert named is ReplayBufferAsync
    for mode, sampler in (("sync", ReplayBuffer), ("separate_async", ReplayBufferAsync)):
        batch, _ = buffer_of(sampler, mode).sample(1, "train", 2)
        data = tq.kv_batch_get_by_meta(batch)
        expected = []
        for key in batch.keys:
            prompt, session, _ = key.removeprefix("p").split("_")
            expected.append(fields_of(int(prompt), int(session)))
        whole = hashlib.sha256()
        for name in ("responses", "rollout_log_probs", "rm_scores"):
            for fields in expected:
                whole.update(fields[name].numpy().tobytes())
        report(
            mode=mode,
            keys=batch.keys,
            tags=batch.tags,
            is_equal=digest_of(data) == whole.hexdigest(),
        )
        tq.kv_clear(batch.keys, "train")
    left = tq.kv_list("train")["train"]
    report(left=sorted(left))
    tq.close()


if __name__ == "__main__":
    {"fill": fill, "sample": sample}[sys.argv[1]](*sys.argv[2:])
