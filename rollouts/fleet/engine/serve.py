"""Command `rolldeck inference`: an inference server that can follow the weights of a run."""

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click

from rolldeck.commands.base import ApiCommand, State
from rolldeck.profiles import url_and_token

DTYPES: Final = ("float32", "bfloat16", "float16")
EXIT_TAKEN, EXIT_MISUSED = 1, 2
ANSWER_SECONDS: Final = 1
"""Time that clients have to read their last response during shutdown."""
STOP_SECONDS: Final = 1.7
"""Time limit of the whole shutdown."""


class _Command(ApiCommand):
    shared = ("url", "token", "as_json")


@click.command(cls=_Command)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    required=True,
    help="Checkpoint folder in Hugging Face's layout.",
)
@click.option("--host", default="127.0.0.1", help="Address (default 127.0.0.1).")
@click.option("--port", type=int, default=8001, help="Port; 0 for any free port (default 8001).")
@click.option("--rows", type=int, default=64, help="Answers generated concurrently (default 64).")
@click.option("--device", default="auto", help="cpu, cuda or cuda:1 (default: a GPU if available).")
@click.option(
    "--dtype", type=click.Choice(DTYPES), help="Type of the weights (default: as stored)."
)
@click.option(
    "--threads", type=int, default=os.cpu_count() or 1, help="Threads on a CPU (default: cores)."
)
@click.option(
    "--model-name", default="", help="Model name for clients (default: the folder's name)."
)
@click.option("--run", default="", help="Follow the weights of this run.")
@click.option(
    "--weights-directory", default="", help="Shared weights folder of the run, if it uses one."
)
@click.option(
    "--accept-weights",
    is_flag=True,
    help="Accept new weights from any client: PUT /v1/weights/<epoch>/<step>.",
)
def inference(state: State, **options: Any) -> int:
    """Serve a checkpoint with OpenAI's HTTP API; with --run, follow the weights of that run.

    Exit code 1 if the address is in use, 2 for an invalid checkpoint.
    """
    # Before requests are served, SIGTERM can end the process at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        code = _serve(SimpleNamespace(**options, state=state))
    except KeyboardInterrupt:
        code = 0
    if threading.active_count() > 1:
        # A thread still runs a step, a download or a copy of weights. Python would wait for
        # non-daemon threads, and break daemon threads during its shutdown.
        _end_process(code)
    return code


def _serve(args: SimpleNamespace) -> int:
    # Importing torch takes seconds; invalid arguments are reported before.
    import torch

    from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, load, read_config
    from rollouts.fleet.engine.tokenizers import TokenizerUnusable, check_fit, load_tokenizer

    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype) if args.dtype else None
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tokenizer = load_tokenizer(args.checkpoint)
        config = read_config(args.checkpoint / "config.json")
        check_fit(tokenizer, vocab_size=config.vocab_size)
        model = load(args.checkpoint, device=device, dtype=dtype)
    except (CheckpointUnreadable, TokenizerUnusable) as error:
        print(f"rolldeck inference: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_MISUSED
    try:
        listener = socket.create_server((args.host, args.port))
    except OSError as error:
        print(f"rolldeck inference: {args.host}:{args.port}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_TAKEN
    with listener, ExitStack() as parts:
        _run(args, model, tokenizer, listener, parts)
    return 0


def _run(
    args: SimpleNamespace, model: Any, tokenizer: Any, listener: socket.socket, parts: ExitStack
) -> None:
    from rollouts.fleet.engine.engine import Engine
    from rollouts.fleet.engine.generate_api import GenerateApi
    from rollouts.fleet.engine.openai_api import OpenAiApi
    from rollouts.fleet.engine.serving import EngineThread
    from rollouts.fleet.engine.weights import BOOTSTRAP, WeightsApi, WeightsFollower, WeightsSwap

    context = model.config.max_position_embeddings
    weight = model.embed.weight
    engine = Engine(model, rows=args.rows, version=BOOTSTRAP, tokenizer=tokenizer)
    thread = EngineThread(engine, context=context)
    parts.callback(thread.close)
    swap = WeightsSwap(thread, model.config, device=str(weight.device), dtype=weight.dtype)
    if args.run:
        from rollouts.fleet.platform_api import PlatformApi
        from rollouts.fleet.process.settings import FleetSettings
        from rollouts.fleet.weights.sources import source_for

        url, token = url_and_token(args.state.url, args.state.token)
        settings = FleetSettings(
            platform_url=url,
            token=token or "",
            run=args.run,
            run_config={},
            incarnation="serve",
        )
        platform = PlatformApi(settings)
        source = source_for(platform, directory=args.weights_directory)
        follower = WeightsFollower(thread, swap, source, close_source=platform.close)
        parts.callback(follower.close)
    name = args.model_name or args.checkpoint.resolve().name
    api = OpenAiApi(thread, tokenizer=tokenizer, model=name, context=context)
    api.app.routes.extend(GenerateApi(api, tokenizer, context=context).routes)
    if args.accept_weights:
        api.app.routes.extend(WeightsApi(thread, swap).routes)
    host, port = listener.getsockname()[:2]
    served = {"model": name, "url": f"http://{host}:{port}/v1"}
    args.state.print(served, lambda row: f"serving {row['model']} at {row['url']}")
    sys.stdout.flush()
    _until_signal(api.app, listener, thread)


def _until_signal(app: Any, listener: socket.socket, thread: Any) -> None:
    """Serve until a signal arrives; then cancel all pending requests at once."""
    import uvicorn

    from rollouts.fleet.engine.serving import STOPPING

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Limits a shutdown blocked by a slow client or disk.
            last = threading.Timer(STOP_SECONDS, _end_process, [0])
            last.daemon = True
            last.start()
            thread.give_up(STOPPING)
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=ANSWER_SECONDS,
        server_header=False,
    )
    server = Server(config)
    # Uvicorn installs its handlers later, and raises the signal again at its end.
    signal.signal(signal.SIGTERM, server.handle_exit)
    server.run(sockets=[listener])


def _end_process(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
