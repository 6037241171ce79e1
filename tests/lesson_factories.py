"""Factories of language runs, and clients of their workers."""

from typing import Any

from rest_framework.test import APIClient

from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rolldeck.groups import IGNORED
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer
from rollouts.tasks.rules.task import alphabet_of, make_task
from runs.lifecycle.models import Run
from tests.factories import bearer, make_run


def lesson(*requires: str, **fields: Any) -> dict[str, Any]:
    """Return a lesson with prerequisites."""
    return {
        "spec": "task:reverse",
        "kwargs": {"length": 2},
        "requires": [{"lesson": name} for name in requires],
        **fields,
    }


def language(lessons: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a configuration with small batches and evaluations of 32 problems."""
    buffer = {"buffer": fields.pop("buffer")} if "buffer" in fields else {}
    return {
        **buffer,
        "language": {
            "lessons": lessons,
            "group_size": 4,
            "prompts_per_batch": 2,
            "evaluation": {"examples": 32, "every_train_steps": 5, **fields.pop("evaluation", {})},
            **fields,
        },
        "seed": 7,
    }


def written_group(run: Run, name: str, prompt: str, answers: list[str]) -> bytes:
    """Return the push of a worker: a group of a lesson, in tokens of the run's alphabet."""
    lessons = run.config["language"]["lessons"].values()
    alphabet = alphabet_of(make_task(one["spec"], one["kwargs"]) for one in lessons)
    tokenizer = AlphabetTokenizer(alphabet)
    given = tokenizer.encode(prompt)
    tokens = [given + tokenizer.encode(answer) for answer in answers]
    masks = [[IGNORED] * len(given) + row[len(given) :] for row in tokens]
    scores = [float(place) for place in range(len(answers))]
    about = {"lesson": name, "worker": "w0@1", "epoch": run.epoch, "policy_step": run.policy_step}
    content = {"tokens": tokens, "masks": masks, "scores": scores, **about}
    return wire.encode(wire.GroupPush(groups=[wire.encode(pack_group(content))]))


class Class:
    """A language run at version (1, 0), with the requests of its workers."""

    def __init__(self, lessons: dict[str, Any], *, name: str = "words", **fields: Any) -> None:
        self.run: Run = make_run(name=name, config=language(lessons, **fields))
        self.worker = bearer("worker", run=self.run)
        self.reader = bearer("read", run=self.run)
        self.keys = 0
        self.publish(0)

    def publish(self, step: int, *, epoch: int = 1) -> None:
        """Set the run's current version."""
        Run.objects.filter(pk=self.run.pk).update(epoch=epoch, policy_step=step)
        self.epoch, self.step = epoch, step

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Return the response to a worker's request."""
        url = f"/api/v1/runs/{self.run.name}/{path}"
        return APIClient().post(url, body, format="json", headers=self.worker)

    def push(self, body: bytes) -> Any:
        """Return the response to a worker's push of groups."""
        self.keys += 1
        return APIClient().post(
            f"/api/v1/runs/{self.run.name}/groups",
            body,
            content_type=wire.GROUPS_TYPE,
            headers=self.worker | {"Idempotency-Key": f"push-{self.keys}"},
        )

    def get(self, path: str, **query: Any) -> Any:
        """Return the decoded response to a reader."""
        url = f"/api/v1/runs/{self.run.name}/{path}"
        answer = APIClient().get(url, query, headers=self.reader)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def task(self, worker: str = "w0@1", **fields: Any) -> dict[str, Any]:
        """Return the next task of a worker with the newest version."""
        body = {"worker": worker, "epoch": self.epoch, "policy_step": self.step, **fields}
        answer = self.post("lessons/tasks", body)
        assert answer.status_code == 200, answer.content
        given: dict[str, Any] = answer.json()
        return given

    def outcome(self, rewards: list[float], **fields: Any) -> dict[str, Any]:
        """Return an outcome with a success for each reward above 0."""
        self.keys += 1
        return {
            "key": f"outcome-{self.keys}",
            "worker": "w0@1",
            "mode": "train",
            "epoch": self.epoch,
            "policy_step": self.step,
            "generations": 1,
            "rewards": rewards,
            "successes": [reward > 0 for reward in rewards],
            **fields,
        }

    def report(self, name: str, rewards: list[float], **fields: Any) -> Any:
        """Push an outcome and return the response."""
        return self.post(f"lessons/{name}/outcomes", self.outcome(rewards, **fields))

    def finish(self, task: dict[str, Any], *, successes: int, **fields: Any) -> Any:
        """Push the result of a leased evaluation and return the response."""
        total = task["examples"] * task["generations"]
        return self.report(
            task["lesson"],
            [1.0] * successes + [0.0] * (total - successes),
            **{
                "mode": "eval",
                "evaluation": task["evaluation"],
                "fence": task["fence"],
                "generations": task["generations"],
                **fields,
            },
        )

    def evaluate_all(self, *, successes: int) -> list[str]:
        """Finish every due evaluation; return the lessons."""
        done = []
        while (task := self.task())["kind"] == "evaluate":
            assert self.finish(task, successes=successes).status_code == 200
            done.append(task["lesson"])
        return done

    def lessons(self) -> dict[str, dict[str, Any]]:
        """Return the run's lessons by name, from the API."""
        return {row["name"]: row for row in self.get("lessons")["results"]}
