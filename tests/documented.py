"""Code blocks of the documentation, run as a reader would run them."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code on a page."""

    language: str
    title: str
    """The file that the block is saved as; empty for a block to run."""
    text: str


def blocks_of(page: str, *, section: str = "") -> list[Block]:
    """Return the blocks of a page of `docs`, or of the section with this heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
        assert text, f"{page} has no section {section!r}"
    return [Block(*match) for match in _BLOCK.findall(text)]


def script_of(page: str, *, section: str = "") -> str:
    """Return the commands of a page as one script.

    It consists of the blocks in `bash` and `python`, and of files for blocks with a title. Blocks
    in `console` start servers, install packages or need another project's package.
    """
    return "\n".join(_commands(blocks_of(page, section=section)))


def _commands(blocks: list[Block]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        end = f"END_OF_BLOCK_{number}"
        if block.title:
            folder = str(Path(block.title).parent)
            yield f"mkdir -p {folder}\ncat > {block.title} <<'{end}'\n{block.text}{end}"
        elif block.language == "python":
            yield f"python - <<'{end}'\n{block.text}{end}"
        elif block.language == "bash":
            yield block.text


def run_page(
    page: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    section: str = "",
    seconds: float = 60,
) -> str:
    """Run the commands of a page in `folder` with these variables, and return their output."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script_of(page, section=section)],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{page}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def commands_of(block: Block) -> str:
    """Return the commands of a block without prompts and output.

    A line of `console` is a command after `$ `, and continues it if it is indented or the command
    has an open quotation mark.
    """
    if block.language != "console":
        return block.text
    kept: list[str] = []
    for line in block.text.splitlines():
        is_open = bool(kept) and "\n".join(kept).count("'") % 2 == 1
        if is_open or line.startswith(("$ ", "    ")):
            kept.append(line if is_open else line.removeprefix("$ "))
    return "\n".join(kept) + "\n"
