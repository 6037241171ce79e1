"""Contract of servers that load LoRA adapters, for stand-ins and for the servers themselves.

A subclass whose name begins with `Test` provides the fixture `place`.
"""

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from msgspec.structs import replace

from rollouts.fleet.engine.checkpoints import assign, merged, named_tensors
from rollouts.fleet.engine.engine import Answer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.inference.adapters import ADAPTERS, PATHS, adapter_shapes
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.http_client import HttpInferenceServer
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from runs.config.rules.language_config import AdapterConfig
from runs.config.rules.servers import InferenceServerSettings
from tests.contract.inference_contract import (
    FIRST,
    RUN,
    SECOND,
    agrees,
    generate_answers,
    model,
    prompt,
)

ADAPTER = AdapterConfig(rank=4, alpha=8.0)
OTHER_RUN = "words-20260101T000001"


@dataclass(slots=True, kw_only=True)
class AdapterPlace:
    """A tested server."""

    settings: InferenceServerSettings
    parts: ExitStack

    def connect(
        self, run: str = RUN, *, adapter: AdapterConfig = ADAPTER, **changed: Any
    ) -> HttpInferenceServer:
        """Return a connection of a worker of `run`, with some settings changed."""
        settings = replace(self.settings, **changed)
        server = HttpInferenceServer(settings, run=run, adapter=adapter)
        self.parts.callback(server.close)
        return server

    def unload(self, name: str) -> int:
        """Unload an adapter without the worker; return the status code."""
        path = PATHS[self.settings.kind][1]
        url = self.settings.replicas[0] + path
        return httpx.post(url, json={"lora_name": name}, timeout=60).status_code

    def stored(self) -> set[str]:
        """Return the names of the adapters in the folder."""
        root = Path(self.settings.weights_directory) / ADAPTERS
        return {path.relative_to(root).as_posix() for path in root.glob("*/*/*")}


def adapter_of(seed: int, adapter: AdapterConfig = ADAPTER) -> dict[str, torch.Tensor]:
    """Return an adapter that changes the answers of the contract's model."""
    base = {name: tuple(tensor.shape) for name, tensor in named_tensors(model(0))}
    random = torch.Generator().manual_seed(seed)
    shapes = adapter_shapes(base, adapter)
    return {name: 0.1 * torch.randn(shape, generator=random) for name, shape in shapes.items()}


def adapted(seed: int, adapter: AdapterConfig = ADAPTER) -> Transformer:
    """Return the contract's model with the adapter of a seed merged into it."""
    found = model(0)
    scale = adapter.alpha / adapter.rank
    assign(found, merged(dict(named_tensors(found)), adapter_of(seed, adapter), scale))
    return found


def labels_of(answers: list[Answer]) -> set[tuple[int, int]]:
    """Return the versions of all tokens."""
    return {version for answer in answers for version in answer.versions}


class AdapterContract:
    """Contract of a server that loads adapters."""

    def test_each_answer_has_the_label_and_the_logprobs_of_its_adapter(
        self, place: AdapterPlace
    ) -> None:
        server, asked = place.connect(), prompt(1, 2, answers=3)
        server.update_weights(adapter_of(1), FIRST)
        [first] = generate_answers(server, asked)
        server.update_weights({k: v.numpy() for k, v in adapter_of(2).items()}, SECOND)
        [second] = generate_answers(server, asked)

        assert server.version == SECOND
        assert (labels_of(first), labels_of(second)) == ({FIRST}, {SECOND})
        assert all(agrees(adapted(1), asked, answer) for answer in first)
        assert all(agrees(adapted(2), asked, answer) for answer in second)
        assert not any(agrees(adapted(1), asked, answer) for answer in second)
        assert not any(agrees(model(0), asked, answer) for answer in [*first, *second])

    def test_a_worker_returns_to_an_earlier_version(self, place: AdapterPlace) -> None:
        server = place.connect()
        for seed, version in ((1, FIRST), (2, SECOND), (1, FIRST)):
            server.update_weights(adapter_of(seed), version)
        [answers] = generate_answers(server, prompt(1))

        assert server.version == FIRST
        assert labels_of(answers) == {FIRST}
        assert all(agrees(adapted(1), prompt(1), answer) for answer in answers)

    def test_requests_in_progress_keep_their_adapter(self, place: AdapterPlace) -> None:
        server, asked = place.connect(), prompt(1, answers=8, max_tokens=200)
        server.update_weights(adapter_of(1), FIRST)
        answers: list[Answer] = []
        asking = threading.Thread(target=lambda: answers.extend(generate_answers(server, asked)[0]))
        adapters = server._adapters
        assert adapters is not None
        # Held as by a request, which may end before the update does.
        with adapters.used():
            asking.start()
            while adapters._uses[FIRST].count <= 2 and asking.is_alive():
                time.sleep(0.01)
            server.update_weights(adapter_of(2), SECOND)
            kept = place.stored()
        asking.join(120)
        server.update_weights(adapter_of(3), (1, 6))

        assert kept == {f"{RUN}/1/4", f"{RUN}/1/5"}
        assert (len(answers), labels_of(answers)) == (8, {FIRST})
        assert all(agrees(adapted(1), asked, answer) for answer in answers)
        assert place.stored() == {f"{RUN}/1/6"}
        assert place.unload(f"{RUN}/1/4") in {400, 404}

    def test_an_adapter_stays_while_another_worker_uses_it(self, place: AdapterPlace) -> None:
        slow = HttpInferenceServer(place.settings, run=RUN, adapter=ADAPTER)
        fast = place.connect()
        for server in (slow, fast):
            server.update_weights(adapter_of(1), FIRST)
        fast.update_weights(adapter_of(2), SECOND)

        found = {server: generate_answers(server, prompt(1))[0] for server in (slow, fast)}
        assert {server: labels_of(answers) for server, answers in found.items()} == {
            slow: {FIRST},
            fast: {SECOND},
        }
        assert all(agrees(adapted(1), prompt(1), answer) for answer in found[slow])

        slow.close()
        fast.update_weights(adapter_of(3), (1, 6))
        assert place.stored() == {f"{RUN}/1/6"}

    def test_runs_with_adapters_share_a_server(self, place: AdapterPlace) -> None:
        servers = {1: place.connect(), 2: place.connect(OTHER_RUN)}
        for seed, server in servers.items():
            server.update_weights(adapter_of(seed), FIRST)

        for seed, server in servers.items():
            [answers] = generate_answers(server, prompt(1))
            assert labels_of(answers) == {FIRST}
            assert all(agrees(adapted(seed), prompt(1), answer) for answer in answers)

    def test_an_adapter_that_the_server_lost_is_loaded_again(self, place: AdapterPlace) -> None:
        server = place.connect()
        server.update_weights(adapter_of(1), FIRST)
        assert place.unload(f"{RUN}/1/4") == 200

        [answers] = generate_answers(server, prompt(1))

        assert labels_of(answers) == {FIRST}
        assert all(agrees(adapted(1), prompt(1), answer) for answer in answers)

    def test_an_adapter_of_another_shape_is_refused_by_its_tensor(
        self, place: AdapterPlace
    ) -> None:
        server, tensors = place.connect(), adapter_of(1)
        server.update_weights(adapter_of(2), FIRST)
        name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

        for wrong in (
            tensors | {name: tensors[name][:, :-1]},
            tensors | {name: tensors[name][:-1]},
            tensors | {name + "s": tensors[name]},
            {key: value for key, value in tensors.items() if key != name},
        ):
            with pytest.raises(WeightsDoNotFit, match=r"q_proj\.lora_A\.weight"):
                server.update_weights(wrong, SECOND)

        assert server.version == FIRST
        assert labels_of(generate_answers(server, prompt(1))[0]) == {FIRST}

    def test_a_layer_that_the_model_lacks_is_named(self, place: AdapterPlace) -> None:
        server = place.connect(adapter=replace(ADAPTER, target_modules=("q_proj", "fc_in")))

        with pytest.raises(WeightsDoNotFit, match=r"adapter\.target_modules: .* no layer fc_in"):
            server.update_weights(adapter_of(1), FIRST)

    def test_a_rank_above_the_servers_limit_is_refused_with_its_address(
        self, place: AdapterPlace
    ) -> None:
        large = replace(ADAPTER, rank=16)
        server, before = place.connect(adapter=large), place.connect()
        before.update_weights(adapter_of(1), FIRST)

        with pytest.raises(
            InferenceFailed, match=r"language\.model\.adapter: .*rank 16"
        ) as refusal:
            server.update_weights(adapter_of(1, large), SECOND)

        assert place.settings.replicas[0] in str(refusal.value)
        assert server.version < FIRST
        [answers] = generate_answers(before, prompt(1))
        assert labels_of(answers) == {FIRST}
        assert all(agrees(adapted(1), prompt(1), answer) for answer in answers)

    def test_an_adapter_of_another_model_is_refused(self, place: AdapterPlace) -> None:
        server = place.connect(model="other")

        with pytest.raises(InferenceFailed, match=r"serves the model .*small.*, not other"):
            server.update_weights(adapter_of(1), FIRST)
