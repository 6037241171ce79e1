"""Answers that clients of atroposlib read, printed as JSON; run by the interpreter of that package.

Its arguments are the address of the server and the folder of its checkpoint.
"""

import asyncio
import json
import sys

from atroposlib.envs.server_handling.server_baseline import APIServerConfig
from atroposlib.envs.server_handling.trl_vllm_server import TrlVllmServer
from atroposlib.envs.server_handling.vllm_server import VLLMServer

PROMPT = "12="


async def main(url: str, checkpoint: str) -> None:
    """Print what the clients of `server_type` vllm and trl return."""
    common = {"api_key": "-", "timeout": 60}
    vllm = VLLMServer(
        APIServerConfig(
            base_url=f"{url}/v1",
            model_name="tiny",
            tokenizer_name=checkpoint,
            server_type="vllm",
            **common,
        )
    )
    sampling = {"n": 3, "max_tokens": 5, "temperature": 1.0, "top_p": 1.0, "stop": ["zz"]}
    prompt, *answers = await vllm.tokens_and_logprobs_completion(prompt=PROMPT, **sampling)
    teacher = await vllm.get_logprobs(prompt=PROMPT, top_k=2)
    trl = TrlVllmServer(
        APIServerConfig(base_url=url, model_name=checkpoint, server_type="trl", **common)
    )
    completion = await trl.completion(prompt=PROMPT, n=2, max_tokens=5)
    chat = await trl.chat_completion(messages=[{"role": "user", "content": "12"}], n=2)
    found = {
        "prompt": prompt,
        "answers": answers,
        "teacher": teacher,
        "completion": [choice.text for choice in completion.choices],
        "chat": [choice.message.content for choice in chat.choices],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
