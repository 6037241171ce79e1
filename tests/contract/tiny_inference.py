"""Our inference server with a tiny checkpoint and a record of its requests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

from examples import tiny_checkpoint
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.generate_api import GenerateApi
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import load_tokenizer
from rollouts.fleet.engine.transformer import Transformer
from tests.stand_ins.inference_servers import listening

CONTEXT = 128


@dataclass(slots=True)
class TinyInference:
    """The server's address, its engine, and the bodies that it received."""

    model: Transformer
    folder: Path
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def tiny_inference(folder: Path) -> Iterator[TinyInference]:
    """Write the checkpoint into `folder` and serve it, with the same weights every time."""
    tiny_checkpoint.write(folder)
    model, tokenizer = checkpoints.load(folder), load_tokenizer(folder)
    engine = Engine(model, rows=32, version=(1, 0), tokenizer=tokenizer)
    thread = EngineThread(engine, context=CONTEXT)
    api = OpenAiApi(thread, tokenizer=tokenizer, model="tiny", context=CONTEXT)
    api.app.routes.extend(GenerateApi(api, tokenizer, context=CONTEXT).routes)
    served = TinyInference(model, folder)

    async def note(request: Request, answer: RequestResponseEndpoint) -> Response:
        content = await request.body()
        if content:
            served.requests.append({"path": request.url.path, "body": json.loads(content)})
        return await answer(request)

    api.app.add_middleware(BaseHTTPMiddleware, dispatch=note)
    try:
        with listening(api.app) as served.url:
            yield served
    finally:
        thread.close()
