"""The tokenizer of a run: stored once, replaced, refused, and the texts of groups that it gives."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from buffer.inspect.models import DigestCursor, GroupDigest
from buffer.inspect.services import digest_groups
from buffer.items.models import TrajectoryGroup
from buffer.tokenizers import rules
from buffer.tokenizers.models import RunTokenizer, TokenizerFile
from buffer.tokenizers.services import remove_unused_tokenizers
from rolldeck.errors import InvalidRequestError
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from rollouts.fleet.engine.tokenizers import ByteTokenizer, load_tokenizer
from rollouts.fleet.groups.wrapper import store_on_platform
from rollouts.fleet.platform_api import PlatformApi
from rollouts.fleet.process.loops import EventLog
from rollouts.fleet.process.settings import FleetSettings
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import bearer, make_run, make_token
from tests.live_server import serving
from tests.tokenizer_files import END, byte_level, content_of, unigram, word_piece

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 5, 4, 10, tzinfo=UTC)
QUESTION, ANSWER = "x = 3 + 4", "Hello 你好 😀"


@pytest.fixture
def run() -> Run:
    return make_run(name="demo", kind="outside", status="running")


def put(run: Run, content: bytes, *, scope: str = "trainer") -> Any:
    return Client().put(
        f"/api/v1/runs/{run.name}/tokenizer",
        content,
        content_type="application/json",
        headers=bearer(scope, run=run),
    )


def get(run: Run, path: str, **headers: str) -> Any:
    return Client().get(
        f"/api/v1/runs/{run.name}/{path}", headers=bearer("read", run=run) | headers
    )


def samples(run: Run, words: str = "") -> Any:
    query = {"run": run.name, "q": words}
    return Client().get("/api/v1/trajectories", query, headers=bearer("read", run=run))


def push(run: Run, tokenizer: Any) -> int:
    """Push a group of tokens without messages; return its id."""
    end = tokenizer.token_to_id(END)
    question = [*tokenizer.encode(QUESTION, add_special_tokens=False).ids, end]
    answer = [*tokenizer.encode(ANSWER, add_special_tokens=False).ids, end]
    masks = [-100] * len(question) + answer
    content = [{"tokens": [question + answer], "masks": [masks], "scores": [1.0]}]
    pushed = Client().post(
        f"/api/v1/runs/{run.name}/groups",
        content,
        content_type="application/json",
        headers=bearer("env", run=run),
    )
    assert pushed.status_code == 200, pushed.content
    return TrajectoryGroup.objects.order_by("-id")[0].pk


def text_of(run: Run, group: int) -> str:
    return "".join(get(run, f"groups/{group}/sequences/0").json()["text"])


@pytest.mark.parametrize("scope", ["trainer", "env", "worker"])
def test_a_tokenizer_is_stored_with_an_event(run: Run, scope: str) -> None:
    content = content_of(byte_level())
    sha256 = hashlib.sha256(content).hexdigest()

    stored = put(run, content, scope=scope)

    assert stored.status_code == 201
    row = stored.json()
    assert (row["sha256"], row["size_bytes"], row["tokens"]) == (sha256, len(content), 300)
    assert get(run, "tokenizer").json() == row
    assert get(run, "tokenizer/file").content == content
    event = RunEvent.objects.get(kind="tokenizer_set")
    assert event.actor == row["set_by"] != ""
    assert event.details == {"sha256": sha256, "before": None, "tokens": 300}


def test_the_same_file_changes_nothing(run: Run) -> None:
    content = content_of(byte_level())

    first, second = put(run, content), put(run, content, scope="env")

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert RunEvent.objects.filter(kind="tokenizer_set").count() == 1


def test_a_file_of_many_runs_is_stored_once_and_removed_with_the_last(run: Run) -> None:
    other = make_run(name="other", kind="outside", status="running")
    content = content_of(byte_level())
    put(run, content)
    put(other, content)
    assert TokenizerFile.objects.count() == 1

    put(run, content_of(unigram()))
    assert TokenizerFile.objects.count() == 2
    other.delete()
    removed = remove_unused_tokenizers()

    assert removed == 1
    assert TokenizerFile.objects.get().pk == RunTokenizer.objects.get().file_id


def test_a_run_without_a_tokenizer_has_numbers(run: Run) -> None:
    group = push(run, byte_level())

    assert get(run, f"groups/{group}/sequences/0").json()["text"] is None
    assert get(run, f"groups/{group}/sequences").json()["has_text"] is False
    missing = get(run, "tokenizer")
    assert (missing.status_code, missing.json()["code"]) == (404, "no_tokenizer")
    assert get(run, "tokenizer/file").status_code == 404


@pytest.mark.parametrize("make", [byte_level, unigram, word_piece])
def test_tokens_are_words_in_the_viewer_the_list_and_the_search(run: Run, make: Any) -> None:
    tokenizer = make()
    put(run, content_of(tokenizer))
    group = push(run, tokenizer)

    assert text_of(run, group).endswith(f"😀{END}")
    (row,) = samples(run).json()["results"]
    assert (row["excerpt"].strip(), row["answer"].strip()) == (QUESTION, ANSWER)
    digest_groups(now=NOW)
    found = samples(run, "Hello").json()["results"]
    assert [row["id"] for row in found] == [str(group)]


def test_digests_are_renewed_once_the_tokenizer_arrives(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = byte_level()
    groups = [push(run, tokenizer) for _ in range(3)]
    digest_groups(now=NOW)
    assert set(GroupDigest.objects.values_list("answer", flat=True)) == {""}
    monkeypatch.setattr("buffer.inspect.services.GROUPS_AT_ONCE", 2)

    put(run, content_of(tokenizer))
    # Without time, a pass renews one part: the newest groups.
    assert digest_groups(now=NOW, seconds=0) == 2
    renewed = GroupDigest.objects.exclude(answer="").order_by("group_id")
    assert list(renewed.values_list("group_id", flat=True)) == groups[1:]
    assert digest_groups(now=NOW) == 1

    assert set(GroupDigest.objects.values_list("answer", flat=True)) == {ANSWER}
    assert DigestCursor.objects.get().renew_before is None
    assert digest_groups(now=NOW) == 0
    assert len(samples(run, "Hello").json()["results"]) == 3


def test_cached_answers_end_with_the_tokenizer_that_gave_them(run: Run) -> None:
    tokenizer = byte_level()
    group = push(run, tokenizer)
    path = f"groups/{group}/sequences/0"
    tag = get(run, path)["ETag"]
    assert get(run, path, **{"If-None-Match": tag}).status_code == 304

    put(run, content_of(tokenizer))
    changed = get(run, path, **{"If-None-Match": tag})

    assert changed.status_code == 200
    assert ANSWER in "".join(changed.json()["text"])
    assert get(run, path, **{"If-None-Match": changed["ETag"]}).status_code == 304


def test_another_tokenizer_replaces_the_texts(run: Run) -> None:
    tokenizer = byte_level()
    put(run, content_of(tokenizer))
    group = push(run, tokenizer)
    digest_groups(now=NOW)
    before = text_of(run, group)

    replaced = put(run, content_of(word_piece()))
    digest_groups(now=NOW + timedelta(seconds=2))

    assert replaced.status_code == 200
    assert text_of(run, group) != before
    assert "⟨" in text_of(run, group)  # ids beyond the smaller vocabulary
    assert GroupDigest.objects.get().answer != ANSWER
    event = RunEvent.objects.filter(kind="tokenizer_set").latest("id")
    assert event.message.endswith(" tokens, in place of another one")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "invalid_tokenizer"),
        (b"{}", 422, "invalid_tokenizer"),
        (b"\x00\xff", 422, "invalid_tokenizer"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 4294967290}, "merges": []}}', 413, "too_large"),
        (b" " * 65, 413, "too_large"),
    ],
)
def test_a_bad_file_is_refused_and_changes_nothing(
    run: Run, content: bytes, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(run, content_of(unigram()))
    before = get(run, "tokenizer").json()
    if content.isspace():
        monkeypatch.setattr(rules, "MOST_FILE_BYTES", 64)

    refused = put(run, content)

    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert refused.json()["errors"][0]["field"] == "body"
    assert get(run, "tokenizer").json() == before


def test_hostile_tokens_are_text(run: Run) -> None:
    tokenizer = byte_level()
    hostile = ["<script>alert(1)</script>", "a\x00b", "\u202eabc"]
    tokenizer.add_special_tokens(hostile)
    put(run, content_of(tokenizer))
    tokens = [tokenizer.token_to_id(token) for token in hostile]
    group = [{"tokens": [tokens], "masks": [tokens], "scores": [1.0]}]
    Client().post(
        "/api/v1/runs/demo/groups",
        group,
        content_type="application/json",
        headers=bearer("env", run=run),
    )
    group_id = TrajectoryGroup.objects.get().pk

    assert get(run, f"groups/{group_id}/sequences/0").json()["text"] == hostile
    assert digest_groups(now=NOW) == 1


def test_clients_store_a_path_and_tokenizer_objects(run: Run, tmp_path: Any) -> None:
    class Transformers:
        backend_tokenizer = unigram()

    tokenizer = byte_level()
    (tmp_path / "tokenizer.json").write_bytes(content_of(tokenizer))
    sha256 = hashlib.sha256(content_of(tokenizer)).hexdigest()
    with serving() as url:
        trainer = Trainer(url, "demo", make_token("trainer", run=run)[1])
        sender = GroupSender(url, "demo", make_token("env", run=run)[1])
        with trainer, sender:
            assert trainer.set_tokenizer(tmp_path) == sha256
            assert trainer.set_tokenizer(tmp_path / "tokenizer.json") == sha256
            assert sender.set_tokenizer(tokenizer) == sha256
            other = sender.set_tokenizer(Transformers())
            (tmp_path / "tokenizer.json").write_bytes(b"{}")
            with pytest.raises(InvalidRequestError, match="not a tokenizer"):
                trainer.set_tokenizer(tmp_path)
            with pytest.raises(FileNotFoundError):
                trainer.set_tokenizer(tmp_path / "absent")
            with pytest.raises(TypeError, match="tokenizer: int is not a path"):
                trainer.set_tokenizer(3)

    assert get(run, "tokenizer").json()["sha256"] == other


def test_a_fleet_stores_the_tokenizer_of_its_checkpoint_unless_the_run_has_one(
    run: Run, tmp_path: Any
) -> None:
    tokenizer = byte_level()
    (tmp_path / "tokenizer.json").write_bytes(content_of(tokenizer))
    (tmp_path / "tokenizer_config.json").write_text(f'{{"eos_token": "{END}"}}')
    events = EventLog()
    with serving() as url:
        settings = FleetSettings(
            platform_url=url,
            token=make_token("worker", run=run)[1],
            run="demo",
            run_config={},
            incarnation="1",
        )
        api = PlatformApi(settings)
        store_on_platform(load_tokenizer(tmp_path), api, events)
        stored = get(run, "tokenizer").json()["sha256"]
        other = put(run, content_of(unigram())).json()["sha256"]
        store_on_platform(load_tokenizer(tmp_path), api, events)
        kept = get(run, "tokenizer").json()["sha256"]
        store_on_platform(ByteTokenizer(), api, events)
        assert events.pop() == []
        run.delete()
        store_on_platform(load_tokenizer(tmp_path), api, events)
        api.close()

    assert stored == hashlib.sha256(content_of(tokenizer)).hexdigest()
    assert kept == other
    (event,) = events.pop()
    assert (event.kind, event.level) == ("tokenizer_not_stored", "warning")
