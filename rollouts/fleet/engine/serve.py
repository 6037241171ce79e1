"""Command `rolldeck inference`: an inference server that can follow the weights of a run."""

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

DESCRIPTION: Final = (
    "Serve a checkpoint with OpenAI's HTTP API; with --run, follow the weights of that run."
)
DTYPES: Final = ("float32", "bfloat16", "float16")
EXIT_TAKEN, EXIT_MISUSED = 1, 2
ANSWER_SECONDS: Final = 1
"""Time that clients have to read their last response during shutdown."""
STOP_SECONDS: Final = 1.7
"""Time limit of the whole shutdown."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM; return 0, 1 if the address is in use, or 2 for an invalid checkpoint."""
    parser = argparse.ArgumentParser(prog="rolldeck inference", description=DESCRIPTION)
    parser.add_argument(
        "--checkpoint", type=Path, required=True, help="checkpoint folder in Hugging Face's layout"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=int, default=8001, help="port; 0 for any free port (default 8001)"
    )
    parser.add_argument(
        "--rows", type=int, default=64, help="answers generated concurrently (default 64)"
    )
    parser.add_argument(
        "--device", default="auto", help="cpu, cuda or cuda:1 (default: a GPU if available)"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="type of the weights (default: as stored)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="threads on a CPU (default: cores)"
    )
    parser.add_argument(
        "--model-name", default="", help="model name for clients (default: the folder's name)"
    )
    parser.add_argument("--run", default="", help="follow the weights of this run")
    parser.add_argument(
        "--platform",
        default=os.environ.get("ROLLDECK_URL", "http://127.0.0.1:8000"),
        help="URL of the platform (default: ROLLDECK_URL)",
    )
    parser.add_argument(
        "--token",
        default=os.environ.get("ROLLDECK_TOKEN", ""),
        help="token of the platform (default: ROLLDECK_TOKEN)",
    )
    parser.add_argument(
        "--weights-directory", default="", help="shared weights folder of the run, if it uses one"
    )
    parser.add_argument(
        "--accept-weights",
        action="store_true",
        help="accept new weights from any client: PUT /v1/weights/<epoch>/<step>",
    )
    args = parser.parse_args(argv)
    # Before requests are served, SIGTERM can end the process at once.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        code = _serve(args)
    except KeyboardInterrupt:
        code = 0
    if threading.active_count() > 1:
        # A thread still runs a step, a download or a copy of weights. Python would wait for
        # non-daemon threads, and break daemon threads during its shutdown.
        _end_process(code)
    return code


def _serve(args: argparse.Namespace) -> int:
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
    args: argparse.Namespace, model: Any, tokenizer: Any, listener: socket.socket, parts: ExitStack
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

        settings = FleetSettings(
            platform_url=args.platform,
            token=args.token,
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
    print(f"serving {name} at http://{host}:{port}/v1", flush=True)  # noqa: T201
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


if __name__ == "__main__":
    sys.exit(main())
