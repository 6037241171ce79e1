"""The docs match the code."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from config.api_document import SOCKETS, topic_shapes
from rolldeck import wire
from rolldeck.group_encoding import pack_group, to_json
from rolldeck.groups import read_msgpack
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.live.schemas import ControlFrame, PageFrame, PageMessage
from tests import client_reference

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_glossary_lists_every_state_and_every_verb() -> None:
    glossary = read("docs/glossary.md")

    assert [word for word in [*RunStatus, *RunVerb] if str(word) not in glossary] == []


def test_the_glossary_has_each_word_once() -> None:
    rows = re.findall(r"(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", read("docs/glossary.md"))
    words = [word for row in rows for word in row.split(", ") if word != "word"]

    assert {"run", "lesson"} <= set(words)
    assert sorted({word for word in words if words.count(word) > 1}) == []


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


def test_every_described_setting_is_read() -> None:
    described = set(re.findall(r"`(ROLLDECK_[A-Z_]+)`", read("docs/reference/settings.md")))
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("platform", "runs", "buffer", "rollouts", "client")
        for path in (ROOT / folder).rglob("*.py")
    )
    code += read("docker-compose.yml") + read("Dockerfile")
    # A secret may also be read from a file: each has a name with this ending.
    names = {name.removeprefix("ROLLDECK_").removesuffix("_FILE") for name in described}

    assert len(names) > 50
    assert sorted(name for name in names if not re.search(rf"\b(?:ROLLDECK_)?{name}\b", code)) == []


def test_the_reference_of_the_client_is_that_of_the_code() -> None:
    written = read("docs/reference/client.md")

    assert "### Trainer\n" in written
    assert written == client_reference.page(), "run 'make schema'"


def test_every_fault_of_a_lesson_is_described() -> None:
    faults = read("docs/reference/faults.md")
    pattern = re.compile(r'(?:LessonFailed|Fault|events\.add)\(\s*"([a-z_]+)"')
    paths = (ROOT / "rollouts/fleet/groups").rglob("*.py")
    kinds = {kind for path in paths for kind in pattern.findall(path.read_text(encoding="utf-8"))}

    assert {"environment_failed", "group_missing"} <= kinds
    assert sorted(kind for kind in kinds - {"recording_failed"} if f"`{kind}`" not in faults) == []


def test_links_between_pages_have_existing_targets() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)} → {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]

    assert broken == []


def places_in(page: Path) -> set[str]:
    """Return the anchors of a page: its headings, in GitHub's notation."""
    prose = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
    titles = re.findall(r"(?m)^#+ (.*)$", prose)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_to_a_fragment_name_a_heading() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, (page.parent / link) if link else page, place)
        for page in pages
        for link, place in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    ]
    broken = [
        f"{page.relative_to(ROOT)} → {target.name}#{place}"
        for page, target, place in links
        if target.suffix == ".md" and place not in places_in(target)
    ]

    assert len(links) > 20
    assert broken == []


def test_every_picture_is_used_and_every_used_picture_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    shown = {
        (page.parent / (tagged or linked)).resolve()
        for page in pages
        for tagged, linked in re.findall(
            r'src(?:set)?="([^":]+)"|!\[[^\]]*\]\(([^):]+)\)', page.read_text(encoding="utf-8")
        )
    }
    stored = {path.resolve() for path in (ROOT / "docs/images").iterdir()}

    assert sorted(path.name for path in stored ^ shown) == []


def test_every_decision_is_in_its_index_under_its_title() -> None:
    index = read("docs/adr/README.md")
    titles = {
        page.name: re.sub(r"^# (?:\d+\. )?", "", page.read_text(encoding="utf-8").split("\n")[0])
        for page in (ROOT / "docs/adr").glob("0*.md")
    }
    lines = [f"{int(name[:4])}. [{title}]({name})" for name, title in sorted(titles.items())]

    assert [line for line in lines if line not in index.splitlines()] == []


def test_nothing_points_outside_the_project() -> None:
    names = ["../" + "shared", "/wo" + "rk/"]
    suspects = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.rglob("*")
        if path.is_file()
        and path.suffix in {".py", ".md", ".toml", ".yml", ".ts", ".tsx", ".json", ".sh", ".txt"}
        and not {
            ".venv",
            ".venv-peers",
            ".partners",
            ".cache",
            "node_modules",
            "dist",
            "var",
            ".git",
        }
        & set(path.relative_to(ROOT).parts)
        for name in names
        if name in path.read_text(encoding="utf-8", errors="replace")
    ]

    assert suspects == []


def bytes_shown(page: str) -> list[bytes]:
    """Return the bytes of each annotated hexadecimal block of a page."""
    blocks = re.findall(r"```\n(8[235] .*?)```", read(page), re.DOTALL)
    return [
        bytes.fromhex("".join(re.split(r" {3,}", line.strip())[0] for line in block.splitlines()))
        for block in blocks
    ]


def test_the_example_of_the_codecs_is_one_group_in_both() -> None:
    page = "docs/reference/codecs.md"
    (shown,) = bytes_shown(page)
    text = re.findall(r"```json\n(.*?)```", read(page), re.DOTALL)[0].encode()

    group = read_msgpack(shown)

    sent = msgspec.json.decode(text)
    answered = msgspec.json.decode(to_json(group))
    assert {name: value for name, value in answered.items() if value is not None} == sent
    packed = wire.encode(pack_group(sent | {"scores": group.scores}))
    assert to_json(read_msgpack(packed)) == to_json(group)
    assert group.scores.dtype == np.float32
    assert f"these {len(shown)} bytes" in read(page)


def test_the_examples_of_the_binary_messages_equal_the_bytes_of_the_client() -> None:
    shown = bytes_shown("docs/reference/binary-messages.md")
    array = wire.pack_array(np.array([1.0, 2.0], dtype="float32"))

    assert shown == [
        wire.encode(wire.FragmentPush(fragments=[b"\x01\x02\x03"])),
        wire.encode(array),
    ]


def name_of(shape: Any) -> str:
    """Return the name of a part's type, without its list and its null."""
    (inner, *_) = get_args(shape) or (shape,)
    return str(inner.__name__)


def test_the_live_protocol_matches_its_declaration() -> None:
    page = read("docs/reference/live.md")
    rows = [
        (topic, name, name_of(of))
        for topic, shape in topic_shapes().items()
        for name, of in [*shape.parts.items(), *shape.series.items()]
    ]

    shown = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (?:list of )?`(\w+)`", page, re.MULTILINE)
    assert sorted(shown) == sorted(rows)
    messages = [ControlFrame, *get_args(PageMessage), *get_args(PageFrame)]
    words = [*SOCKETS, *(message.__name__ for message in messages)]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_the_examples_of_the_live_protocol_match_the_messages() -> None:
    page_messages, *frame_examples, control = re.findall(
        r"```json\n(.*?)```", read("docs/reference/live.md"), re.DOTALL
    )

    messages = [msgspec.json.decode(line, type=PageMessage) for line in page_messages.splitlines()]
    frames = [msgspec.json.decode(frame, type=PageFrame) for frame in frame_examples]
    assert {type(message) for message in messages} == {*get_args(PageMessage)}
    assert {type(frame) for frame in frames} == {*get_args(PageFrame)}
    for frame in [*frames, msgspec.json.decode(control, type=ControlFrame)]:
        (text,) = [
            example
            for example in [*frame_examples, control]
            if f'"{frame.__struct_config__.tag}"' in example
        ]
        assert set(msgspec.json.decode(text)) == {"type", *frame.__struct_fields__}


def test_files_named_in_the_docs_exist() -> None:
    """A name without a folder, in ARCHITECTURE.md, is in the folder of the name before it."""
    folders = {entry.name for entry in ROOT.iterdir() if entry.is_dir()}
    missing = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        if page.parent.name == "adr" or page.name == "CHANGELOG.md":
            continue  # accepted decisions and past changes are history
        for line in page.read_text(encoding="utf-8").splitlines():
            folder = None
            for name in re.findall(r"`([\w./-]+\.py)`", line):
                if "/" not in name:
                    is_known = page.name != "ARCHITECTURE.md" or folder is None
                    path = ROOT / name if folder is None else folder / name
                    missing += [] if is_known or path.exists() else [f"{page.name}: {name}"]
                elif name.partition("/")[0] in folders:
                    folder = (ROOT / name).parent
                    missing += [] if (ROOT / name).exists() else [f"{page.name}: {name}"]

    assert missing == []
