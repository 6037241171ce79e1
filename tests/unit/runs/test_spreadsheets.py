import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.rules.texts import plain_cell


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1+1"])
def test_formulas_become_text(text: str) -> None:
    assert plain_cell(text) == f"'{text}"


@given(st.text())
def test_escaped_text_is_complete(text: str) -> None:
    assert plain_cell(text) in (text, f"'{text}")


@pytest.mark.parametrize("text", ["", "a run", "1 = 1", " -", "é"])
def test_other_text_is_unchanged(text: str) -> None:
    assert plain_cell(text) == text
