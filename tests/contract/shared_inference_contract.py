"""Contract of inference servers whose weights several workers replace."""

import threading

import pytest

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.inference.shared_folder import MARKER, WEIGHTS
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from tests.contract.inference_contract import (
    FIRST,
    RUN,
    SECOND,
    InferenceServerContract,
    Place,
    agrees,
    generate_answers,
    model,
    prompt,
)


class SharedServerContract(InferenceServerContract):
    """Contract of servers that the workers of a run share."""

    def test_workers_that_share_a_server_replace_its_weights_once(self, place: Place) -> None:
        workers = [place.connect() for _ in range(3)]
        tensors = dict(named_tensors(model(1)))
        running = [
            threading.Thread(target=worker.update_weights, args=(tensors, FIRST))
            for worker in workers
        ]
        for server_name in running:
            server_name.start()
        for server_name in running:
            server_name.join(60)

        assert [worker.version for worker in workers] == [FIRST] * 3
        # `rolldeck inference` rejects a repeated change itself; the others receive only one.
        assert len([call for call in place.calls if "weights" in call]) <= 1

    def test_a_second_run_is_refused_with_the_name_of_the_first(self, place: Place) -> None:
        first = place.connect()
        first.update_weights(dict(named_tensors(model(1))), (1, 6))
        second = place.connect("words-20260101T000001")

        # Later and earlier versions than those of the first run.
        for version in ((1, 0), (2, 0)):
            with pytest.raises(InferenceFailed, match=f"version 1/6 of run {RUN!r}") as refusal:
                second.update_weights(dict(named_tensors(model(2))), version)
            assert "Use another server, or" in str(refusal.value)
        with pytest.raises(InferenceFailed, match=RUN):
            assert second.version

        first.update_weights(dict(named_tensors(model(3))), (1, 7))
        request = prompt(1, 2)
        assert first.version == (1, 7)
        assert all(
            agrees(model(3), request, answer) for answer in generate_answers(first, request)[0]
        )

    def test_a_worker_of_the_same_run_gets_the_servers_version(self, place: Place) -> None:
        place.connect().update_weights(dict(named_tensors(model(1))), SECOND)
        late = place.connect()

        late.update_weights(dict(named_tensors(model(2))), FIRST)

        request = prompt(1, 2)
        [answers] = generate_answers(late, request)
        assert late.version == SECOND
        assert {version for answer in answers for version in answer.versions} == {SECOND}
        assert all(agrees(model(1), request, answer) for answer in answers)


class FolderServerContract(SharedServerContract):
    """Contract of servers that read weights from a folder."""

    def test_a_second_run_is_refused_until_the_marker_is_deleted(self, place: Place) -> None:
        place.connect().update_weights(dict(named_tensors(model(1))), (1, 6))
        second = place.connect("words-20260101T000001")

        with pytest.raises(InferenceFailed, match=f"version 1/6 of run {RUN!r}") as refusal:
            second.update_weights(dict(named_tensors(model(2))), (1, 0))
        assert MARKER in str(refusal.value)
        with pytest.raises(InferenceFailed, match=RUN):
            generate_answers(second, prompt(1))

        (place.folder / MARKER).unlink()
        request = prompt(1, 2)
        second.update_weights(dict(named_tensors(model(2))), (1, 0))
        [answers] = generate_answers(second, request)
        assert second.version == (1, 0)
        assert {version for answer in answers for version in answer.versions} == {(1, 0)}
        assert all(agrees(model(2), request, answer) for answer in answers)

    def test_an_unknown_tensor_is_refused_by_its_name(self, place: Place) -> None:
        server, tensors = place.connect(), dict(named_tensors(model(1)))
        before = (place.folder / WEIGHTS).read_bytes()

        with pytest.raises(WeightsDoNotFit, match=r"model\.extra\.weight"):
            server.update_weights(
                tensors | {"model.extra.weight": tensors["model.norm.weight"]}, FIRST
            )

        assert (place.folder / WEIGHTS).read_bytes() == before
        assert generate_answers(server, prompt(1))
