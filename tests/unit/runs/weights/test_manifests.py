"""A weights file is compared with its manifest."""

import pytest

from rolldeck.safetensors import Header, Tensor
from runs.weights.rules import differing_field

HELD = Header(
    tensors=(
        Tensor(name="a", dtype="F32", shape=(1,), begin=0, end=4),
        Tensor(name="b", dtype="F32", shape=(2,), begin=4, end=12),
    ),
    header_bytes=0,
)


@pytest.mark.parametrize(
    ("expected", "field"),
    [
        ([("a", "F32", (1,)), ("b", "F32", (2,))], None),
        ([("b", "F32", (2,)), ("a", "F32", (1,))], None),
        ([("a", "F32", (1,))], "tensors"),
        ([("a", "F32", (1,)), ("c", "F32", (2,))], "tensors[1].name"),
        ([("a", "F32", (1,)), ("a", "F32", (1,))], "tensors[1].name"),
        ([("a", "F16", (1,)), ("b", "F32", (2,))], "tensors[0].dtype"),
        ([("a", "F32", (1,)), ("b", "F32", (2, 1))], "tensors[1].shape"),
    ],
)
def test_the_first_difference_to_a_manifest_is_named(
    expected: list[tuple[str, str, tuple[int, ...]]], field: str | None
) -> None:
    differing = differing_field(HELD, expected=expected)

    assert (differing[0] if differing else None) == field
