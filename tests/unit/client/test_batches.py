"""A batch holds arrays of its fragments, copied only by stacking."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from rolldeck.batches import Batch
from rolldeck.errors import InvalidMessageError
from rolldeck.wire import (
    BatchAnswer,
    BatchHead,
    Fragment,
    encode,
    pack_array,
    unpack_array,
)
from tests.unit.client.batch_factories import (
    OBS_SIZE,
    make_batch_body,
    make_fragment,
    with_arrays,
)


def test_a_fragment_has_views_of_the_received_bytes() -> None:
    batch = Batch.decode(make_batch_body([make_fragment()]))

    obs = batch.fragments[0]["obs"]

    assert obs.shape == (8, OBS_SIZE)
    assert not obs.flags.owndata
    assert not obs.flags.writeable


def test_a_fragment_is_decoded_without_copies_and_copied_with_its_own_bytes() -> None:
    body = make_batch_body([make_fragment()])

    view = Batch.decode(body).fragments[0]
    copied = deepcopy(view.fragment)

    assert np.shares_memory(view["obs"], np.frombuffer(body, np.uint8))
    assert encode(view.fragment) == encode(copied) == encode(make_fragment())


def test_stacked_arrays_have_the_axes_fragment_and_step() -> None:
    fragments = [make_fragment(number=n, policy_step=n) for n in range(3)]

    arrays = Batch.decode(make_batch_body(fragments)).stack()

    assert arrays["obs"].shape == (3, 8, OBS_SIZE)
    assert arrays["reward"].shape == (3, 8)
    assert arrays["next_obs"].shape == (3, OBS_SIZE)
    assert arrays["policy_step"][:, 0].tolist() == [0, 1, 2]
    assert arrays["contiguous"].tolist() == [False, True, True]
    assert arrays["version_max"].tolist() == [0, 1, 2]
    assert arrays["obs"].flags.writeable
    np.testing.assert_array_equal(arrays["obs"][2], unpack_array(fragments[2].arrays["obs"]))


def test_the_ends_of_episodes_are_listed_with_their_position() -> None:
    fragments = [
        make_fragment(number=0, ends={1: "terminated", 6: "truncated"}),
        make_fragment(number=1),
        make_fragment(number=2, ends={7: "truncated"}),
    ]

    arrays = Batch.decode(make_batch_body(fragments)).stack()

    assert arrays["final_obs"].shape == (3, OBS_SIZE)
    assert arrays["final_fragment"].tolist() == [0, 0, 2]
    assert arrays["final_step"].tolist() == [1, 6, 7]
    assert arrays["truncated"][arrays["final_fragment"], arrays["final_step"]].tolist() == [
        False,
        True,
        True,
    ]


def test_composed_observations_are_stacked_part_by_part() -> None:
    def in_parts(number: int, ends: dict[int, str]) -> Fragment:
        whole = make_fragment(number=number, ends=ends)
        arrays = dict(whole.arrays)
        for name in ("obs", "next_obs", "final_obs"):
            if name in arrays:
                array = unpack_array(arrays.pop(name))
                arrays[f"{name}.near"] = pack_array(array[..., :1])
                arrays[f"{name}.far.away"] = pack_array(array[..., 1:])
        return replace(whole, arrays=arrays)

    fragments = [in_parts(0, {1: "terminated"}), in_parts(1, {}), in_parts(2, {7: "truncated"})]

    arrays = Batch.decode(make_batch_body(fragments)).stack()

    assert arrays["obs.near"].shape == (3, 8, 1)
    assert arrays["next_obs.far.away"].shape == (3, OBS_SIZE - 1)
    assert arrays["final_obs.near"].shape == (2, 1)
    assert arrays["final_obs.far.away"].shape == (2, OBS_SIZE - 1)
    assert arrays["final_fragment"].tolist() == [0, 2]
    assert not {"obs", "next_obs", "final_obs"} & arrays.keys()


def test_a_batch_without_an_end_has_an_empty_list() -> None:
    arrays = Batch.decode(make_batch_body([make_fragment()])).stack()

    assert arrays["final_obs"].shape == (0, OBS_SIZE)
    assert arrays["final_fragment"].shape == (0,)


def test_the_mask_separates_real_steps_from_padding() -> None:
    padded = make_fragment(number=1, ends={4: "truncated"}, real=5)

    batch = Batch.decode(make_batch_body([make_fragment(), padded]))
    mask = batch.stack()["mask"]

    assert mask.dtype == np.bool_
    assert mask.sum(axis=1).tolist() == [8, 5]
    assert mask[1].tolist() == [True] * 5 + [False] * 3


def test_values_of_info_are_stacked_with_nan_in_the_rows_of_fragments_without_them() -> None:
    cost = np.array([1, np.nan, 3, 4, 5, 6, 7, 8], dtype=np.float32)
    speed = np.where(np.arange(8) < 5, 0.5, 0).astype(np.float32)
    plain = make_fragment()
    costly = with_arrays(make_fragment(number=1), **{"info.cost": cost})
    fast = with_arrays(
        make_fragment(number=2, ends={4: "truncated"}, real=5), **{"info.speed": speed}
    )

    batch = Batch.decode(make_batch_body([plain, costly, fast]))
    arrays = batch.stack()

    never = [np.nan] * 8
    padded = [*[np.nan] * 5, 0, 0, 0]
    np.testing.assert_array_equal(arrays["info.cost"], [never, cost, padded])
    np.testing.assert_array_equal(arrays["info.speed"], [never, never, speed])
    assert arrays["info.cost"].dtype == np.float32
    assert batch.to_torch()["info.cost"].dtype == torch.float32
    alone = Batch.decode(make_batch_body([plain])).stack()
    assert not [name for name in alone if name.startswith("info")]


def test_fragments_of_different_length_are_not_stacked() -> None:
    batch = Batch.decode(make_batch_body([make_fragment(), make_fragment(number=1, steps=9)]))

    with pytest.raises(InvalidMessageError, match="cannot be stacked"):
        batch.stack()


def test_a_batch_of_groups_has_them_as_json() -> None:
    head = BatchHead(
        id="b", ordinal=1, fence=1, kind="groups", count=1, lease_seconds=9, epoch=1, policy_step=-2
    )
    batch = Batch.decode(encode(BatchAnswer(batch=head, items=[b'{"tokens": [[1]]}'])))

    assert batch.groups == ({"tokens": [[1]]},)
    with pytest.raises(InvalidMessageError):
        batch.stack()


@pytest.mark.parametrize("body", [b"", b"{}", make_batch_body([make_fragment()])[:-3]])
def test_a_malformed_answer_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        Batch.decode(body)
