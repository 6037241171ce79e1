"""One turn of verifiers' `TrainClient`, printed as JSON; run by the interpreter of that package.

Its arguments are the server's base URL, the name of the model and the folder of its checkpoint.
"""

import asyncio
import json
import sys

import verifiers.v1 as vf
from verifiers.v1.dialects import ChatDialect


async def main(url: str, model: str, checkpoint: str) -> None:
    """Print the tokens, log probabilities and the finish reason of a reply."""
    config = vf.TrainClientConfig(
        base_url=url,
        renderer={"name": "qwen3", "enable_thinking": False},
        renderer_model_name=checkpoint,
    )
    client = vf.resolve_client(config)
    body = {"model": model, "messages": [{"role": "user", "content": "2+2="}]}
    reply = await client.get_response(ChatDialect(), body, vf.SamplingConfig(max_tokens=9))
    await client.close()
    assert reply.tokens is not None
    found = {
        "prompt": reply.tokens.prompt_ids,
        "tokens": reply.tokens.completion_ids,
        "logprobs": reply.tokens.completion_logprobs,
        "finish": reply.finish_reason,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
