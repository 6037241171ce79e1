"""A generated section of a page, between two markers."""


def renewed(page: str, text: str, *, begin: str, end: str) -> str:
    """Return the page with `text` between its markers.

    Raises:
        ValueError: If the page has no markers.
    """
    if begin not in page or end not in page:
        raise ValueError(f"the page lacks {begin!r} or {end!r}")
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{text}\n{end}{after}"
