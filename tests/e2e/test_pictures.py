"""The comparison of screenshots finds what a reader would see, and ignores antialiasing."""

from pathlib import Path

import numpy as np
import pytest

from tests.e2e.pictures import (
    EDGE_TOLERANCE,
    FLAT_TOLERANCE,
    MAX_FRACTION,
    Pixels,
    browser_of,
    compare,
    read,
    save,
)

HEIGHT, WIDTH = 300, 400
SURFACE, BORDER, INK = (13, 17, 23), (22, 27, 34), (230, 237, 243)


@pytest.fixture
def page() -> Pixels:
    """A dark surface with a panel, and rows of strokes with antialiased edges, like text."""
    pixels = np.full((HEIGHT, WIDTH, 3), SURFACE, np.uint8)
    pixels[40:260, 30] = pixels[40:260, 370] = pixels[40, 30:371] = pixels[260, 30:371] = BORDER
    random = np.random.default_rng(3)
    for top in range(60, 240, 20):
        strokes = random.random((10, 300, 1)).round(1)
        text = SURFACE + strokes * np.subtract(INK, SURFACE)
        pixels[top : top + 10, 50:350] = text.astype(np.uint8)
    return pixels


def test_equal_pictures_differ_in_no_pixel(page: Pixels) -> None:
    assert compare(page, page.copy()).fraction == 0.0


def test_a_surface_in_another_shade_is_a_difference(page: Pixels) -> None:
    changed = page.copy()
    changed[(page == SURFACE).all(axis=2)] = np.add(SURFACE, FLAT_TOLERANCE + 1)

    assert compare(page, changed).fraction > 0.3


def test_a_faint_border_that_appears_or_disappears_is_a_difference(page: Pixels) -> None:
    plain = page.copy()
    plain[260, 30:371] = SURFACE

    assert compare(page, plain).is_too_large
    assert compare(plain, page).is_too_large


def test_text_that_moves_by_a_pixel_is_a_difference(page: Pixels) -> None:
    changed = page.copy()
    changed[60:70, 51:101] = page[60:70, 50:100]

    assert compare(page, changed).is_too_large


def test_other_antialiasing_is_no_difference(page: Pixels) -> None:
    is_text = ~np.isin(page, [SURFACE, BORDER]).all(axis=2)
    noise = np.random.default_rng(4).integers(-EDGE_TOLERANCE, EDGE_TOLERANCE + 1, page.shape)
    noisy = np.clip(page.astype(int) + noise * is_text[..., None], 0, 255).astype(np.uint8)

    assert not compare(page, noisy).is_too_large


def test_more_pixels_than_the_limit_are_too_many(page: Pixels) -> None:
    changed, most = page.copy(), int(MAX_FRACTION * HEIGHT * WIDTH)
    changed[5, 1 : 1 + most] = INK
    assert not compare(page, changed).is_too_large
    changed[5, 1 + most] = INK
    assert compare(page, changed).is_too_large


def test_the_difference_marks_the_pixels_that_differ(page: Pixels) -> None:
    changed = page.copy()
    changed[5:15, 5:15] = INK
    shown = np.asarray(compare(page, changed).picture())

    is_red = (shown == (220, 0, 0)).all(axis=2)
    assert is_red[5:15, 5:15].all()
    assert int(is_red.sum()) == 100


def test_pictures_of_different_sizes_differ_entirely(page: Pixels) -> None:
    assert compare(page, page[1:]).fraction == 1.0


@pytest.mark.parametrize("colours", [200, 4000])
def test_an_accepted_file_equals_its_screenshot(page: Pixels, tmp_path: Path, colours: int) -> None:
    random = np.random.default_rng(5)
    shades = random.integers(0, 256, (colours, 3), dtype=np.uint8)
    chart = page.copy()
    chart[270:299, 1:399] = shades[random.integers(0, colours, (29, 398))]
    save(chart, tmp_path / "chart.png", browser="142.0")

    assert not compare(read(tmp_path / "chart.png"), chart).is_too_large
    assert browser_of(tmp_path / "chart.png") == "142.0"
