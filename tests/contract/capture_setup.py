"""A run with its capturing proxy between an inference server and the platform, on real sockets."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
import uvicorn

from buffer.capture.services import score_sessions
from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import content_head
from rolldeck.http import Connection
from rollouts.fleet.capture.calls import PlatformCallStore
from rollouts.fleet.capture.proxy import CaptureProxy
from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, ChatFormat, Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run, make_token
from tests.live_server import QuickServer, serving
from tests.unit.rollouts.fleet.engine.small_models import small_model

KEY = "secret"
"""API key of the proxy."""
MODEL = "policy"
TOKENIZER = AlphabetTokenizer(
    "abcdefghijklmnopqrstuvwxyz 0123456789:\n",
    ChatFormat(user="user: {}\n", assistant="ai: {}\n", answer="ai: "),
)


@contextmanager
def on_a_port(app: Any, *, lifespan: Any = "off") -> Iterator[str]:
    """Serve an ASGI application until the block ends; yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = QuickServer(uvicorn.Config(app, log_level="warning", lifespan=lifespan))
    runner = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    runner.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        runner.join(10)


@contextmanager
def small_engine(
    tokenizer: Tokenizer = TOKENIZER,
    model: Transformer | None = None,
    *,
    version: tuple[int, int] = (0, 0),
) -> Iterator[str]:
    """Serve a model, or a small random one; yield the base URL of its API."""
    model = model or small_model(vocab_size=tokenizer.vocab_size, max_position_embeddings=256)
    context = model.config.max_position_embeddings
    engine = Engine(model, rows=4, version=version, tokenizer=tokenizer)
    thread = EngineThread(engine, context=context)
    api = OpenAiApi(thread, tokenizer=tokenizer, model=MODEL, context=context)
    with on_a_port(api.app) as url:
        yield f"{url}/v1"
    thread.close()


@dataclass(frozen=True, slots=True)
class Stand:
    """A run with its capturing proxy and the servers behind it."""

    run: Run
    proxy: str
    platform: str
    clients: list[openai.OpenAI] = field(default_factory=list)
    """Clients to close at the end."""

    def agent(self, session: str, key: str = KEY, **fields: Any) -> openai.OpenAI:
        """Return OpenAI's client for a session."""
        base = f"{self.proxy}/capture/{session}/v1"
        client = openai.OpenAI(base_url=base, api_key=key, max_retries=0, **fields)
        self.clients.append(client)
        return client

    def score(self, **scores: float) -> Any:
        """Score sessions and return the receipt."""
        return score_sessions(
            run=Run.objects.get(pk=self.run.pk), scores=scores, producer="judge", now=NOON
        )


@contextmanager
def stand_with(upstream: str, *, upstream_seconds: float = 60.0) -> Iterator[Stand]:
    """Serve the platform, and a proxy for its run in front of an inference server."""
    run = make_run(name="agents", kind="outside", status="running")
    Run.objects.filter(pk=run.pk).update(batch_size=2, max_token_len=4096)
    with serving() as platform:
        connection = Connection(platform, make_token("env", run=run)[1], retry_for_seconds=1.0)
        store = PlatformCallStore(connection, run.name)
        proxy = CaptureProxy(
            upstream=upstream, store=store, api_key=KEY, upstream_seconds=upstream_seconds
        )
        with on_a_port(proxy.app, lifespan="on") as url:
            stand = Stand(run, url, platform)
            yield stand
            for client in stand.clients:
                client.close()


def group() -> dict[str, Any]:
    """Return the content of the only group."""
    (row,) = TrajectoryGroup.objects.all()
    content: dict[str, Any] = json.loads(content_head(ItemKind.GROUPS, row.pk, 1 << 20))
    return content


def trained(row: dict[str, Any], place: int) -> list[int]:
    """Return the trained tokens of a sequence."""
    return [mask for mask in row["masks"][place] if mask >= 0]
