"""Malformed pushes of fragments are refused with their field."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from buffer.items.models import FragmentChunk
from rolldeck import wire
from runs.lifecycle.models import Run
from tests.api.buffer.fragment_api import Api
from tests.buffer_factories import arrays, fragment, padded, push
from tests.factories import make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run() -> Run:
    """A fleet run at version 0 of epoch 1 that trains on batches of two fragments."""
    return make_run(name="alpha", epoch=1, policy_step=0, batch_size=2, max_staleness=1)


@pytest.fixture
def api(run: Run) -> Api:
    return Api(run)


def in_parts(steps: int, *, without: str = "", **changes: Any) -> dict[str, wire.Array]:
    """Return a fragment's arrays with observations of two parts."""
    parts: dict[str, Any] = {
        "obs.a": np.zeros((steps, 1), np.uint8),
        "obs.b": np.zeros((steps, 3), np.float32),
        "next_obs.a": np.zeros(1, np.uint8),
        "next_obs.b": np.zeros(3, np.float32),
    }
    return arrays(steps, **{"obs": None, "next_obs": None, **parts, without: None, **changes})


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "no msgpack": (lambda: b"\xc1", "body"),
    "an unknown field": (lambda: msgspec.msgpack.encode({"fragments": [b""], "x": 1}), "body"),
    "no fragments": (lambda: msgspec.msgpack.encode({"fragments": []}), "fragments"),
    "a broken fragment": (lambda: push(fragment()) + b"x", "body"),
    "no reward": (lambda: push(fragment(arrays=arrays(4, reward=None))), "arrays.reward"),
    "rewards of another dtype": (
        lambda: push(fragment(arrays=arrays(4, reward=np.ones(4)))),
        "arrays.reward",
    ),
    "too few rewards": (
        lambda: push(fragment(arrays=arrays(4, reward=np.ones(3, np.float32)))),
        "arrays.reward",
    ),
    "a reward that is no number": (
        lambda: push(fragment(arrays=arrays(4, reward=np.full(4, np.nan, np.float32)))),
        "arrays.reward",
    ),
    "another next_obs": (
        lambda: push(fragment(arrays=arrays(4, next_obs=np.zeros(5, np.float32)))),
        "arrays.next_obs",
    ),
    "a part without its next_obs": (
        lambda: push(fragment(arrays=in_parts(4, without="next_obs.b"))),
        "arrays.next_obs.b",
    ),
    "a part of another type": (
        lambda: push(fragment(arrays=in_parts(4, **{"next_obs.b": np.zeros(3, np.int8)}))),
        "arrays.next_obs.b",
    ),
    "a part that is too short": (
        lambda: push(fragment(arrays=in_parts(4, **{"obs.a": np.zeros((3, 1), np.uint8)}))),
        "arrays.obs.a",
    ),
    "a last observation without a part": (
        lambda: push(
            fragment(
                arrays=in_parts(
                    4,
                    truncated=np.arange(4) == 1,
                    final_step=np.array([1], np.int32),
                    **{"final_obs.a": np.zeros((1, 1), np.uint8)},
                )
            )
        ),
        "arrays.final_obs.b",
    ),
    "observations whole and in parts": (
        lambda: push(fragment(arrays=in_parts(4, obs=np.zeros((4, 2), np.float32)))),
        "arrays.obs",
    ),
    "a step outside": (
        lambda: push(
            fragment(
                arrays=arrays(
                    4,
                    final_obs=np.zeros((1, 4), np.float32),
                    final_step=np.array([4], np.int32),
                )
            )
        ),
        "arrays.final_step",
    ),
    "an episode that is not named": (lambda: push(fragment(episode_ids=[])), "episode_index"),
    "versions that were not": (
        lambda: push(fragment(arrays=arrays(4, policy_step=np.full(4, 3, np.int32)))),
        "arrays.policy_step",
    ),
    "bytes that do not fill the shape": (
        lambda: push(
            fragment(arrays=arrays(4) | {"value": wire.Array(dtype="f", shape=(4,), data=b"")})
        ),
        "arrays.value",
    ),
    "a mask of numbers": (
        lambda: push(fragment(arrays=arrays(4, mask=np.ones(4, np.float32)))),
        "arrays.mask",
    ),
    "a mask of another length": (
        lambda: push(fragment(arrays=arrays(4, mask=np.ones(3, bool)))),
        "arrays.mask",
    ),
    "no real step": (
        lambda: push(fragment(arrays=padded(4, real=0))),
        "arrays.mask",
    ),
    "a real step behind padding": (
        lambda: push(fragment(arrays=padded(4, real=2, mask=np.array([1, 0, 1, 0], bool)))),
        "arrays.mask",
    ),
    "padding that is rewarded": (
        lambda: push(fragment(arrays=padded(4, real=2, reward=np.ones(4, np.float32)))),
        "arrays.reward",
    ),
    "padding in the middle of an episode": (
        lambda: push(fragment(arrays=padded(4, real=2, truncated=np.zeros(4, bool)))),
        "arrays.mask",
    ),
    "the second one": (
        lambda: push(fragment(), fragment(number=1, arrays=arrays(4, obs=None))),
        "fragments[1].arrays.obs",
    ),
}


@pytest.mark.parametrize(("content", "field"), BROKEN.values(), ids=BROKEN.keys())
def test_malformed_fragments_are_refused_with_their_field(
    api: Api, content: Callable[[], bytes], field: str
) -> None:
    response = api.send(content())

    assert response.status_code == 422
    assert field in response.json()["errors"][0]["field"]
    assert FragmentChunk.objects.count() == 0
