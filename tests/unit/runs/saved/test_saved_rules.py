"""Names and differences of saved objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.saved.rules import InvalidSavedObject, checked_name, differences

leaves = st.integers() | st.lists(st.integers(), max_size=2)
parts = st.dictionaries(st.sampled_from("xyz"), leaves, max_size=3)


@given(st.dictionaries(st.sampled_from("abc"), leaves | parts, max_size=3))
def test_equal_values_have_no_differences(config: dict[str, object]) -> None:
    assert differences(config, config) == {}


def test_differences_are_named_by_their_path() -> None:
    before = {"fleet": {"workers": 2, "removed": 1}, "seed": 0}
    after = {"fleet": {"workers": 4}, "seed": 0, "new": [1]}

    assert differences(before, after) == {
        "fleet.workers": {"before": 2, "after": 4},
        "fleet.removed": {"before": 1, "after": None},
        "new": {"before": None, "after": [1]},
    }


def test_a_name_is_stored_without_the_space_around_it() -> None:
    assert checked_name(" losses ") == "losses"

    with pytest.raises(InvalidSavedObject) as caught:
        checked_name(" ")
    assert caught.value.field == "name"
