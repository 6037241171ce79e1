"""All supported observations and actions are converted to plain arrays without loss."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from buffer.ingest.rules import fragments as fragment_rules
from rolldeck.wire import unpack_array
from rollouts.fleet.environments.loader import Adapted, describe
from rollouts.fleet.policies.base import head_for
from rollouts.fleet.policies.factory import make_policy
from rollouts.fleet.policies.inputs import NoImages, image_shape, images, others, vectors
from rollouts.fleet.policies.policy_protocol import for_environment
from rollouts.fleet.policies.spaces import Space, UnsupportedSpace, actions, observations, picture
from rollouts.fleet.steps.fragments import FragmentCutter
from rollouts.fleet.steps.step_columns import Outcomes
from runs.config.rules.sections import PolicyConfig

CAMERA = spaces.Box(0, 255, (6, 8, 3), np.uint8)
SEEN = {
    "box": spaces.Box(-1, 1, (2, 3), np.float32),
    "wide box": spaces.Box(0, 60_000, (2,), np.uint16),
    "image": CAMERA,
    "bool box": spaces.Box(0, 1, (4,), np.bool_),
    "discrete": spaces.Discrete(5, start=-2),
    "multi discrete": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, -1]]),
    "multi binary": spaces.MultiBinary((2, 2)),
    "dict": spaces.Dict({"image": CAMERA, "health": spaces.Box(0, 20, (1,), np.float32)}),
    "nested": spaces.Dict(
        {"a": spaces.Dict({"b": spaces.Discrete(3), "c.d": spaces.MultiBinary(2)}), "z": CAMERA}
    ),
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float64)]),
}
TAKEN = {
    "discrete": spaces.Discrete(5, start=-2),
    "box": spaces.Box(-1, 1, (2, 3), np.float32),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "wide box": spaces.Box(0, 60_000, (2,), np.uint16),
    "multi discrete": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, -1]]),
    "multi binary": spaces.MultiBinary((2, 2)),
    "buttons and camera": spaces.Dict(
        {"buttons": spaces.MultiDiscrete([8641]), "camera": spaces.MultiDiscrete([121])}
    ),
    "dict of choices": spaces.Dict(
        {"hotbar.1": spaces.Discrete(2), "jump": spaces.Discrete(3, start=1)}
    ),
    "dict of boxes": spaces.Dict(
        {"a": spaces.Box(-1, 1, (2,), np.float32), "b": spaces.Box(0, 5, (1, 2), np.float64)}
    ),
    "nested tuple": spaces.Tuple([spaces.Discrete(2), spaces.Tuple([spaces.Discrete(3)])]),
}


class Still(gymnasium.Env[Any, Any]):
    """Environment with fixed observations that raises on any unexpected action."""

    def __init__(self, shown: Any, taken: Any) -> None:
        self.observation_space = shown
        self.action_space = taken

    def reset(self, *, seed: int | None = None, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize("name", list(SEEN))
def test_observations_have_the_described_form(name: str) -> None:
    adapted = Adapted(Still(SEEN[name], TAKEN["discrete"]))
    shown, _ = describe(adapted)

    obs = np.asarray(adapted.reset(seed=1)[0])

    assert obs.shape == shown.shape
    assert obs.dtype == shown.array_dtype
    assert vectors(shown, obs[None]).shape == (1, shown.size)
    assert vectors(shown, np.stack([np.stack([obs] * 4)] * 3)).shape == (3, 4, shown.size)


@pytest.mark.parametrize("name", list(TAKEN))
def test_sampled_actions_are_valid_for_the_environment(name: str) -> None:
    adapted = Adapted(Still(SEEN["box"], TAKEN[name]))
    _, taken = describe(adapted)
    head = head_for(taken)
    log_std = torch.ones(head.outputs) if head.is_continuous else None
    outputs = torch.randn(50, head.outputs) * 5

    drawn, logprobs = head.draw(outputs, log_std, torch.Generator().manual_seed(1))
    adapted.reset(seed=1)
    for row in for_environment(drawn.numpy(), taken):
        adapted.step(row)

    assert logprobs.shape == (50,)
    assert torch.allclose(head.logprob(outputs, log_std, drawn), logprobs, atol=1e-4)


def test_parts_keep_every_value() -> None:
    environment = Still(SEEN["nested"], TAKEN["discrete"])
    shown, encode = observations(environment.observation_space)
    value, _ = environment.reset(seed=3)
    assert encode is not None

    row = encode(value)

    assert list(shown.parts) == ["a.b", "a.c.d", "z"]
    assert row["a.b"] == value["a"]["b"]
    assert np.array_equal(row["a.c.d"], value["a"]["c.d"])
    assert np.array_equal(row["z"], value["z"])


def test_bytes_become_numbers_up_to_one_and_choices_one_hot() -> None:
    shown, encode = observations(SEEN["dict"])
    assert encode is not None
    picture = np.full((6, 8, 3), 255, np.uint8)
    obs = encode({"image": picture, "health": np.array([7.0])})[None]

    assert vectors(shown, obs)[0, :2].tolist() == [7.0, 1.0]
    assert np.array_equal(images(shown, obs)[0].numpy(), picture)
    assert others(shown, obs).tolist() == [[7.0]]
    discrete, _ = observations(SEEN["discrete"])
    assert vectors(discrete, np.array([-2, 2])).tolist() == [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.Text(4), "Text is not supported"),
        (spaces.Box(0, 1, (1,), np.uint64), "a Box of uint64"),
        (spaces.Dict({}), "empty"),
    ],
    ids=str,
)
def test_unsupported_spaces_are_refused_with_a_reason(space: Any, reason: str) -> None:
    with pytest.raises(UnsupportedSpace, match=reason):
        observations(space)


def test_an_action_of_both_numbers_and_choices_is_refused_by_its_parts() -> None:
    mixed = spaces.Dict({"camera": spaces.Box(-1, 1, (2,)), "jump": spaces.Discrete(2)})

    with pytest.raises(UnsupportedSpace, match=r"cannot combine.*camera: .*jump: "):
        actions(mixed)


@pytest.mark.parametrize("kind", ["mlp", "cnn", "gru"])
@pytest.mark.parametrize("name", ["image", "dict", "nested"])
def test_every_policy_acts_on_images_and_vectors(kind: str, name: str) -> None:
    environment = Adapted(Still(SEEN[name], TAKEN["buttons and camera"]))
    shown, taken = describe(environment)
    policy = make_policy(PolicyConfig(kind=kind, channels=[4, 8]), shown, taken, seed=1)  # type: ignore[arg-type]
    policy.load(
        {n: np.zeros(tuple(w.shape), np.float32) for n, w in policy._template.state_dict().items()}
    )
    obs = np.stack([np.asarray(environment.reset(seed=seed)[0]) for seed in range(5)])

    decision = policy.act(obs, policy.initial_state(5), np.ones(5, np.bool_))

    assert decision.actions.shape == (5, 2)
    assert decision.values.tolist() == [0.0] * 5


def test_images_of_different_sizes_are_refused() -> None:
    both = spaces.Dict({"a": CAMERA, "b": spaces.Box(0, 255, (3, 3, 1), np.uint8)})

    with pytest.raises(NoImages, match="sizes differ"):
        images(observations(both)[0], np.zeros(1, observations(both)[0].array_dtype))


LAYOUTS = {
    "channels last": ((84, 96, 3), "HWC", (84, 96, 3)),
    "greyscale with a channel": ((84, 84, 1), "HWC", (84, 84, 1)),
    "a small grid": ((7, 7, 3), "HWC", (7, 7, 3)),
    "layers of a grid": ((5, 5, 20), "HWC", (5, 5, 20)),
    "a narrow image": ((10, 5, 1), "HWC", (10, 5, 1)),
    "a cube": ((3, 3, 3), "HWC", (3, 3, 3)),
    "channels first": ((3, 64, 96), "CHW", (64, 96, 3)),
    "a stack of frames": ((4, 84, 84), "CHW", (84, 84, 4)),
    "a stack of colours": ((12, 84, 84), "CHW", (84, 84, 12)),
    "a stack of one": ((1, 84, 84), "CHW", (84, 84, 1)),
    "greyscale": ((84, 96), "HW", (84, 96, 1)),
    "a table": ((4, 20), None, None),
    "a row": ((84,), None, None),
    "a stack of images": ((4, 84, 84, 3), None, None),
    "a small first axis": ((3, 8, 12), "ambiguous", None),
    "no channels": ((40, 50, 60), "ambiguous", None),
}


@pytest.mark.parametrize(("shape", "layout", "size"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_an_image_is_read_from_its_space(shape: Any, layout: Any, size: Any) -> None:
    shown, _ = observations(spaces.Box(0, 255, shape, np.uint8))

    assert shown.image_layout == layout
    if size is None:
        with pytest.raises(NoImages, match="no uint8 image" if layout is None else "Transform"):
            image_shape(shown)
        return
    assert image_shape(shown) == size
    row = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    found = images(shown, row).numpy()
    assert found.shape == (2, *size)
    moved = row.reshape(2, *size) if layout != "CHW" else row.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(found, moved)
    taken = actions(spaces.Discrete(2))[0]
    policy = make_policy(PolicyConfig(kind="cnn", channels=[4, 8]), shown, taken, seed=1)
    policy.load(
        {n: np.zeros(tuple(w.shape), np.float32) for n, w in policy._template.state_dict().items()}
    )
    assert policy.act(row, {}, np.ones(2, np.bool_)).actions.shape == (2,)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((51, 80, 3), (51, 80, 3)),
        ((51, 80, 4), (51, 80, 3)),
        ((51, 80, 1), (51, 80, 3)),
        ((51, 80), (51, 80, 3)),
        ((3, 51, 80), (51, 80, 3)),
        ((51, 80, 7), None),
        ((51,), None),
    ],
)
def test_a_rendered_frame_becomes_a_picture(shape: Any, size: Any) -> None:
    found = picture(np.zeros(shape, np.uint8))
    assert (None if found is None else found.shape) == size
    assert picture("text") is None


def fragment_of(shown: Space, rows: list[Any]) -> Any:
    """Return the fragment of a slot that observes `rows`, with an episode end after step 1."""
    cutter = FragmentCutter(slots=["s"], environment="e", worker="w", fragment_length=3)
    slot = np.array([0])
    cutter.begin(0, rows[0], episode="1")
    cut = []
    for at, row in enumerate(rows[1:]):
        cutter.act(
            slot,
            actions=np.zeros(1, np.int64),
            logprobs=np.zeros(1, np.float32),
            values=np.zeros(1, np.float32),
            policy_step=0,
            state={},
        )
        ends = at == 1
        finals = {0: np.array(rows[-1])} if ends else {}
        outcomes = Outcomes(
            np.zeros(1), np.array([ends]), np.array([False]), np.empty((1, 0), np.float32), finals
        )
        cut += cutter.observe(
            slot, np.stack([row]), outcomes, new_episodes={0: "2"} if ends else {}
        )
    return cut[0][1]


def test_a_fragment_has_an_array_for_each_part_of_its_observations() -> None:
    environment = Adapted(Still(SEEN["nested"], TAKEN["discrete"]))
    shown, _ = describe(environment)
    rows = [environment.reset(seed=seed)[0] for seed in range(4)]

    fragment = fragment_of(shown, rows)
    fragment_rules.check(fragment)

    arrays = {name: unpack_array(array) for name, array in fragment.arrays.items()}
    for part in shown.parts:
        assert np.array_equal(arrays[f"obs.{part}"], np.stack(rows[:3])[part])
        assert np.array_equal(arrays[f"next_obs.{part}"], rows[3][part])
        assert np.array_equal(arrays[f"final_obs.{part}"], rows[3][part][None])
        assert arrays[f"obs.{part}"].dtype == shown.parts[part].dtype
    assert not {"obs", "next_obs", "final_obs"} & arrays.keys()
