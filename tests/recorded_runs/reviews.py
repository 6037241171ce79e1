"""Notes, marks, presets, rules and tokens of the recorded server's users."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.recorded_runs.names import FAILED, HOSTILE, LANGUAGE, LIVE, MIXED, PAUSED, PROJECT
from tests.recorded_runs.people import Person
from tests.sample_runs import texts
from tests.server import Server, wait_until

NOTE: Final = "The answer is right, the work is not: it guesses and says so. Worth a rule?"
_FIRST: Final = "Baseline for the reversal lessons."
_LESSONS: Final = """\
**Baseline** for the reversal lessons; compare everything with this one.

- [x] rehearsal at 0.2: without it `one-good` was forgotten while `three-goods` was learnt
- [ ] try a larger group size

Next: see [the sweep](/runs?q=tag:sweep).
"""


def write(server: Server, person: Person) -> None:
    """Write notes, marks, two presets, a project, a snoozed rule, tokens."""
    person.put(f"/api/v1/runs/{LANGUAGE}/notes", {"text": _FIRST, "revision": 0})
    person.put(f"/api/v1/runs/{LANGUAGE}/notes", {"text": _LESSONS, "revision": 1})
    person.put(f"/api/v1/runs/{HOSTILE}/notes", {"text": f"# {texts.MARKUP}", "revision": 0})
    _mark(server, person)
    _save(person)
    _project(person)
    _rule(person)
    _tokens(server)
    _acknowledge(server, person)


def _mark(server: Server, person: Person) -> None:
    root = f"/api/v1/runs/{MIXED}"
    newest = server.get(f"/api/v1/trajectories?run={MIXED}&limit=12")["results"]
    groups = [int(one["id"]) for one in newest]
    tagged = (
        (["good"], groups[1:3]),
        (["reward hack"], groups[4:8]),
        (["format broken", "long"], groups[9:10]),
    )
    for tags, some in tagged:
        person.post(f"{root}/marks", {"groups": some, "add_tags": tags})
    person.post(f"{root}/marks", {"groups": groups[4:5], "note": NOTE})


def _save(person: Person) -> None:
    presets: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        (
            "four-workers",
            "CartPole on four workers, as in the sweep",
            "open",
            {"fleet": {"num_workers": 4, "envs_per_worker": 8}, "buffer": {"batch_size": 32}},
        ),
        (
            "pendulum-slow",
            "Pendulum with a long horizon, one version behind at most",
            "shared",
            {"environment": {"spec": "gymnasium:Pendulum-v1"}, "buffer": {"max_staleness": 1}},
        ),
    )
    for name, description, access, config in presets:
        body = {"name": name, "description": description, "access": access, "config": config}
        person.post("/api/v1/presets", body)


def _project(person: Person) -> None:
    body = {
        "name": PROJECT,
        "title": "Balance a pole",
        "description": "Step runs on CartPole, compared by return.",
        "defaults": {"preset": "cartpole", "config": {"seed": 7}, "tags": ["sweep"]},
    }
    person.post("/api/v1/projects", body)
    for run in (LIVE, PAUSED):
        person.patch(f"/api/v1/runs/{run}", {"project": PROJECT})


def _rule(person: Person) -> None:
    body = {
        "name": "Value loss is not a number",
        "metric": "value_loss",
        "comparator": "not_finite",
        "severity": "error",
        "runbook": "Stop the run, and start it again from the last weights with half the rate.",
        "run": LIVE,
        "reason": "it diverged twice last month",
    }
    rule = person.post("/api/v1/alerts/rules", body)
    until = datetime.now(UTC) + timedelta(days=7)
    snooze = {
        "rule": rule["id"],
        "until": until.isoformat(),
        "reason": "the new optimiser is being tried out",
    }
    person.post("/api/v1/alerts/snoozes", snooze)


def _tokens(server: Server) -> None:
    """Create an active, an expired and a revoked token; the administrator does."""
    server.post("/api/v1/tokens", {"name": "trainer", "scopes": ["trainer"]})
    expiring = {"name": "last-week", "scopes": ["read"], "expires_in_seconds": 1}
    server.post("/api/v1/tokens", expiring)
    old = server.post("/api/v1/tokens", {"name": "old-environment", "scopes": ["env"]})
    server.delete(f"/api/v1/tokens/{old['id']}")


def _acknowledge(server: Server, person: Person) -> None:
    def failed() -> list[dict[str, Any]]:
        rows = server.get("/api/v1/alerts")["results"]
        return [row for row in rows if row["kind"] == "run_failed" and FAILED in str(row)]

    [alert, *_] = wait_until(failed, seconds=60, what=f"the alert of {FAILED}")
    reason = "the forward pass deadlocks; the fix is under review"
    person.post(f"/api/v1/alerts/{alert['id']}/acknowledge", {"reason": reason})
