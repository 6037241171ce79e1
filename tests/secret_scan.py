"""Scan of the tracked files for credentials, without a network.

``python -m tests.secret_scan [FOLDER]`` (`make check`) prints the place and the kind of each
credential, never its text, and fails if there is one. The detectors are those of bc-detect-secrets,
and four of this project. They search whole files: the scanner of that package skips long lines.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLUGINS: Final = {
    "aws": "AWSKeyDetector",
    "basic_auth": "BasicAuthDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "jwt": "JwtTokenDetector",
    "mailchimp": "MailchimpDetector",
    "npm": "NpmDetector",
    "private_key": "PrivateKeyDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "twilio": "TwilioKeyDetector",
}
"""Detectors of texts of a fixed form, by their modules. Others report words, and hashes."""
OWN: Final = {
    # Also indented, as in YAML, and with escaped line ends.
    "Private Key": re.compile(r"-BEGIN [A-Z ]*PRIVATE KEY-+(?:\s|\\n|\\r)+[A-Za-z0-9+/]{16}"),
    "Token of this platform": re.compile(r"\brd_[0-9a-f]{8}_[\w-]{32}(?![\w-])"),
    "Token of a model provider": re.compile(
        r"\b(?:hf_[A-Za-z0-9]{30,}|sk-(?:proj-|ant-)?[\w-]*[A-Za-z0-9]{20,}|AIza[\w-]{35})"
    ),
    "Token of a package index": re.compile(r"\b(?:pypi-AgE[\w-]{50,}|glpat-[\w-]{20,})"),
}
PLACEHOLDERS: Final = frozenset(
    {"8000", "TOKEN", "p", "p%40ss", "pass", "password", "s%40crt", "secret", "word"}
    | {"the-password-of-mail"}
)
"""Texts of examples and tests that have the form of a credential and are none."""
WITHOUT_TEXT: Final = (".png", ".xz", ".zip", ".woff2", ".safetensors")


def detectors() -> list[Any]:
    """Return the detectors of bc-detect-secrets.

    Raises:
        SystemExit: If the package is not installed.
    """
    try:
        return [
            getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
            for module, name in PLUGINS.items()
        ]
    except ImportError as error:
        raise SystemExit(
            f"secret scan: {error}. Install the packages of requirements/dev.in (`make setup`)"
        ) from error


def findings(text: str, plugins: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield line and kind of each credential in a text."""
    for plugin in plugins:
        for secret in {*plugin.analyze_string(text)} - PLACEHOLDERS:
            yield text.count("\n", 0, text.index(secret)) + 1, plugin.secret_type
    for kind, pattern in OWN.items():
        for match in pattern.finditer(text):
            if match[0] not in PLACEHOLDERS:
                yield text.count("\n", 0, match.start()) + 1, kind


def scan(folder: Path) -> list[str]:
    """Return the credentials in the files that Git tracks in a folder, as `path:line: kind`."""
    plugins = detectors()
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=folder, capture_output=True, check=True
    ).stdout.decode()
    found = []
    for name in filter(None, listed.split("\0")):
        file = folder / name
        if file.is_file() and file.suffix not in WITHOUT_TEXT:
            text = file.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}:{line}: {kind}" for line, kind in sorted({*findings(text, plugins)})]
    return found


def main() -> None:
    """Print the credentials of the tracked files; exit with 1 if there is one."""
    found = scan(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    if found:
        print(*found, sep="\n")  # noqa: T201 the output of this command
        sys.exit("Remove and revoke each credential; add only placeholders to PLACEHOLDERS")


if __name__ == "__main__":
    main()
