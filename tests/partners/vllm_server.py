"""A vLLM server on the CPU, with a model made on the spot."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import tokenizers

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.engine import Answer, Prompt
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer
from rollouts.fleet.inference.contract import InferenceServer
from rollouts.fleet.inference.shared_folder import MARKER
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import model
from tests.stand_ins.inference_servers import MAX_LORA_RANK
from tests.stand_ins.vllm_server import MAX_NUM_SEQS

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "vllm" / "bin" / "python"
START_SECONDS = 600
"""Start takes 20 s on an idle machine and 190 s on a busy one."""
FIRST_SECONDS = 300
"""Time limit of the first request, which compiles."""
END = "<end>"
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = (
    *("--logprobs-mode", "processed_logprobs"),
    *("--dtype", "float32", "--enforce-eager", "--max-num-seqs", str(MAX_NUM_SEQS)),
    *("--max-num-batched-tokens", "16384"),
)
TRANSFER_OPTIONS = ("--weight-transfer-config", '{"backend": "rolldeck"}')
ADAPTER_OPTIONS = ("--enable-lora", "--max-lora-rank", str(MAX_LORA_RANK), "--max-loras", "2")


def write_tokenizer(tokenizer: AlphabetTokenizer, folder: Path) -> None:
    """Write a built-in tokenizer as files of the `tokenizers` library."""
    vocabulary = {token: n for n, token in enumerate([*tokenizer.alphabet, END])}
    written = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(vocabulary, unk_token=END)  # type: ignore[call-arg]
    )
    written.pre_tokenizer = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex("[\\s\\S]"), "isolated"
    )
    written.decoder = tokenizers.decoders.Fuse()
    written.add_special_tokens([END])
    written.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "unk_token": END,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))


def small_server(folder: Path, *options: str) -> "VllmServer":
    """Write the model of the contract and return its server, with further options."""
    checkpoints.save(model(0), folder)
    return VllmServer(folder, *OPTIONS, *options)


class VllmServer:
    """Process of ``vllm.entrypoints.openai.api_server`` in a process group of its own."""

    def __init__(self, folder: Path, *options: str, name: str = "small") -> None:
        """Prepare a server; `start` starts the process.

        Args:
            folder: Folder of the model and the log.
            options: Options of the command.
            name: Name of the model.
        """
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        transfers = TRANSFER_OPTIONS[0] in options
        self.settings = InferenceServerSettings(
            kind="vllm",
            url=self.url,
            model=name,
            weights_directory="" if transfers else str(folder),
            weight_transfer=transfers,
        )
        self._options = ("--served-model-name", name, *options)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; the model loads in the background."""
        module = ("-m", "vllm.entrypoints.openai.api_server", "--model", str(self.folder))
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        with (self.folder / "vllm.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PYTHON, *module, *address, *self._options],
                cwd=self.folder,
                env=os.environ | ENVIRONMENT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until the server has answered a request."""
        deadline = time.monotonic() + START_SECONDS
        while not self.is_healthy:
            assert self.is_running, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.5)
        body = {"model": self.settings.model, "prompt": [1], "max_tokens": 2, "logprobs": 0}
        body |= {"return_tokens_as_token_ids": True}
        httpx.post(
            f"{self.url}/v1/completions", json=body, timeout=FIRST_SECONDS
        ).raise_for_status()

    def reset(self) -> None:
        """Load the first model again, as at the start of a server with an unused folder."""
        (self.folder / MARKER).unlink(missing_ok=True)
        checkpoints.save(model(0), self.folder)
        self.reload()

    def reload(self) -> None:
        """Load the folder, without a label."""
        self.post("/pause?mode=keep")
        self.post("/collective_rpc", {"method": "reload_weights"})
        self.post("/reset_prefix_cache?reset_running_requests=true")
        self.post("/update_weight_version", {"new_version": "default"})
        self.post("/resume")

    def post(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Post JSON to a route."""
        httpx.post(f"{self.url}{path}", json=body, timeout=60).raise_for_status()

    def kill(self) -> None:
        """End all processes of the server at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_healthy(self) -> bool:
        """Whether the server reports that it can generate."""
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def log(self) -> str:
        """End of the log."""
        return (self.folder / "vllm.log").read_text()[-4000:]


@contextmanager
def all_running(servers: Sequence[VllmServer]) -> Iterator[Sequence[VllmServer]]:
    """Run servers until the end of the block; they start at the same time."""
    with ExitStack() as parts:
        for server in servers:
            parts.callback(server.kill)
            server.start()
        for server in servers:
            server.wait()
        yield servers


def generate_through_a_restart(
    server: VllmServer, client: InferenceServer, requests: Sequence[Prompt]
) -> list[list[Answer]]:
    """Kill a server while it generates, start it again, and return the answers."""
    found: list[list[Answer]] = []

    def generate() -> None:
        found.extend(client.generate(requests, stop=threading.Event(), timeout_seconds=900))

    asking = threading.Thread(target=generate)
    asking.start()
    time.sleep(0.3)
    server.kill()
    server.start()
    server.wait()
    asking.join(600)
    return found
