"""The docs describe the code that is there."""

import re
from pathlib import Path

import numpy as np

from rolldeck import wire
from runs.core.lifecycle import RunStatus, RunVerb

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_glossary_knows_every_state_and_every_verb() -> None:
    glossary = read("docs/glossary.md")

    assert [word for word in [*RunStatus, *RunVerb] if str(word) not in glossary] == []


def test_every_setting_that_is_read_is_described() -> None:
    settings = read("docs/reference/settings.md")
    names = {
        name
        for folder in ("platform/config",)
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', path.read_text(encoding="utf-8"))
    }

    assert names
    assert sorted(name for name in names if f"`{name}`" not in settings) == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)} → {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]

    assert broken == []


def test_nothing_points_outside_the_project() -> None:
    names = ["../" + "shared", "/wo" + "rk/"]
    suspects = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.suffix in {".py", ".md", ".toml", ".yml", ".ts", ".tsx", ".json", ".sh", ".txt"}
        and not {".venv", ".venv-peers", "node_modules", "dist", "var", ".git"}
        & set(path.relative_to(ROOT).parts)
        for name in names
        if name in path.read_text(encoding="utf-8", errors="replace")
    ]

    assert suspects == []


def test_the_worked_examples_of_the_binary_messages_are_what_the_client_sends() -> None:
    blocks = re.findall(
        r"```\n(8[23] .*?)```", read("docs/reference/binary-messages.md"), re.DOTALL
    )
    shown = [
        bytes.fromhex("".join(re.split(r" {3,}", line.strip())[0] for line in block.splitlines()))
        for block in blocks
    ]
    array = wire.pack_array(np.array([1.0, 2.0], dtype="float32"))

    assert shown == [
        wire.encode(wire.FragmentPush(fragments=[b"\x01\x02\x03"])),
        wire.encode(array),
    ]
