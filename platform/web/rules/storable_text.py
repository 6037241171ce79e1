"""Sanitize client text for the database."""


def storable(text: str) -> str:
    """Replace NUL and lone surrogates, which PostgreSQL rejects."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
