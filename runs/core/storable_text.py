"""Make what clients say fit for the database."""


def storable(text: str) -> str:
    """Return text that PostgreSQL takes: no NUL, no half of a character."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
