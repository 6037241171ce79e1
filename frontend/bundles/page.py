"""Write a self-contained page with its style, its script and its data.

The page's own Content-Security-Policy forbids loading anything and running any other script. Texts
of runs and environments appear only in blocks of JSON, which browsers do not execute, with ``<``
written as an escape, so that no text can end its block.
"""

import base64
import hashlib
import html
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

_FOLDER: Final = Path(__file__).parent
_ESCAPES: Final = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


@cache
def _source(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _fingerprint(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def policy(scripts: Sequence[str] = ("viewer.js",)) -> str:
    """Return the page's policy: it permits only the page's own scripts and style."""
    known = " ".join(_fingerprint(_source(name)) for name in scripts)
    return (
        f"default-src 'none'; script-src {known}; "
        f"style-src {_fingerprint(_source('viewer.css'))}; base-uri 'none'; form-action 'none'"
    )


def head(*, title: str, scripts: Sequence[str] = ("viewer.js",)) -> bytes:
    """Return the beginning of a page, up to its data."""
    written = "".join(f"<script>{_source(name)}</script>\n" for name in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_source('viewer.css')}</style>\n"
        f"{written}</head>\n<body>\n"
        '<main id="bundle"><noscript>This page needs its own script to show the data that it '
        "holds.</noscript></main>\n"
    ).encode()


def block(kind: str, content: Any) -> bytes:
    """Return a data block for the page's script.

    Args:
        kind: Name of the block, a plain word.
        content: Any value that msgspec can encode.
    """
    written = msgspec.json.encode(content)
    for sign, escape in _ESCAPES.items():
        written = written.replace(sign, escape)
    return (
        f'<script type="application/json" data-part="{kind}">'.encode() + written + b"</script>\n"
    )


def foot() -> bytes:
    """Return the end of a page."""
    return b"</body>\n</html>\n"
