"""Which test runs each block of code of the documentation, or why none does.

A block is named by a text that no other block of its page contains. Empty names are all other
blocks of the page.
"""

from typing import Final, NamedTuple


class Step(NamedTuple):
    """A block that `tests/system/test_documented_pages.py` runs."""

    block: str
    before: str = ""
    """Code that prepares what the page assumes, in the language of the block."""
    after: str = ""
    """Code that checks the outcome."""
    expected: str = ""
    """A text of the output."""
    replaced: tuple[tuple[str, str], ...] = ()
    """Values of the page, such as the id of an alert, and those of the test."""


CHECK: Final = "rolldeck admin check"
"""Reads the settings as the server does; it fails if a variable is invalid."""
ALERT: Final = (
    'refused=\'{"tokens": [[1]], "masks": [[1, 2]], "scores": [1.0]}\'\n'
    'curl -X POST "$ROLLDECK_URL/atropos/gsm8k/scored_data" -d "$refused"'
    ' -H "Authorization: Bearer $ROLLDECK_TOKEN" -H "Content-Type: application/json" || true\n'
    "alert() { rolldeck api GET alerts | python -c 'import json, sys;"
    ' print(json.load(sys.stdin)["results"][0]["id"])\' 2>/dev/null; }\n'
    "until ALERT=$(alert); do sleep 1; done"
)
FREE: Final = (
    "rolldeck api POST runs/{0}/kill reason=test || true\n"
    "rolldeck api POST run-actions action=archive q=name:{0}\n"
)
POLE: Final = (
    FREE.format("pole") + "rolldeck run create --preset cartpole --name pole\n"
    "until rolldeck api GET runs/pole/fleet/logs worker=0 slot=3 wait=0 2>&1"
    "; do sleep 1; done"
)


RUN: Final[dict[str, list[Step]]] = {
    "howto/environments.md": [
        Step(
            'register("maze"',
            before="class Maze:\n    def __init__(self, name): self.name = name",
        ),
        Step(
            "class TimePenalty",
            after="assert TimePenalty(per_step=1).after_step(None, 0, 3, False, False, {})[1] == 2",
        ),
        Step(
            "class StepLog",
            after="log = StepLog(file='steps.csv')\n"
            "log(episode_uuid='a', last_reward=1, last_terminated=False, obs=0)\nlog.close()\n"
            "assert open('steps.csv').read().startswith('a,1,False')",
        ),
        Step("--env-steps 10000", expected="episodes"),
        Step("ROLLDECK_ENVIRONMENTS=module:my_lab.mazes", after=CHECK),
        Step("read_fragments", after="assert arrays['obs'].shape[:2] == arrays['mask'].shape"),
        Step("environments/probes", expected="mean_return|steps"),
        Step(
            "register_vector",
            before="class Mazes:\n    def __init__(self, rows, **kwargs): self.rows = rows",
        ),
    ],
    "howto/finding-runs.md": [
        Step("columns=config.buffer.batch_size", expected="sweep-1"),
        Step(
            "projects name=poles",
            before="rolldeck api POST runs name=first kind=outside",
            expected="first",
        ),
        Step(
            "run delete my-run",
            before="rolldeck api POST runs name=my-run kind=outside start=true\n"
            "rolldeck api POST runs/my-run/kill reason=test",
        ),
    ],
    "howto/launching.md": [
        Step(
            '"four-workers"',
            before="rolldeck api POST run-actions action=archive q=name:first",
            after="rolldeck api POST runs/first/kill reason=test",
        ),
        Step("run create --project poles", after="rolldeck api POST runs/second/kill reason=test"),
        Step("rolldeck run check", expected="(?i)ready|risky"),
        Step("pause third", after="rolldeck api POST runs/third/kill reason=test"),
    ],
    "howto/alerts.md": [
        Step('"Loss is high"', expected='"metric": ?"train/loss"'),
        Step("alerts severity=error", before=ALERT, replaced=(("alerts/12", "alerts/$ALERT"),)),
        Step(
            "alerts/snoozes",
            before=ALERT,
            replaced=(
                ("alert=12", "alert=$ALERT"),
                ("2027-01-01T00:00:00Z", "$(date -u -d tomorrow +%FT%TZ)"),
            ),
        ),
        Step(
            "def is_ours",
            after="sent = str(int(time.time()))\n"
            "mac = hmac.new(b's', sent.encode() + b'.{}', hashlib.sha256).hexdigest()\n"
            "assert is_ours('s', f't={sent},v1={mac}', b'{}')\n"
            "assert not is_ours('other', f't={sent},v1={mac}', b'{}')",
        ),
    ],
    "howto/trajectories.md": [
        Step("is:truncated score:<0.2", expected='"results"'),
        Step("meta.difficulty:>3", expected='"meta.difficulty"|"results"'),
        Step("runs/demo/marks", expected="12"),
        Step("hacks.jsonl", after="grep -q 'reward hack' hacks.jsonl"),
        Step(
            "set_tokenizer",
            before="import subprocess\n"
            "example = ['python', '-m', 'rolldeck_server.example', 'tiny_checkpoint']\n"
            "subprocess.run([*example, 'checkpoints/qwen3'], check=True)\n"
            "trainer = Trainer(url, 'demo', token)",
        ),
    ],
    "howto/watching.md": [
        Step("groups/discard", expected="13"),
        Step("fleet/logs", before=POLE, expected='"state"'),
        Step(
            "recordings",
            after="rolldeck api POST runs/pole/kill reason=test",
            expected='"episodes"',
        ),
    ],
    "howto/cluster.md": [
        Step(
            "/cordon",
            before="NODE=$(rolldeck api GET cluster | python -c 'import json, sys;"
            ' print(json.load(sys.stdin)["ray"]["nodes"][0]["node"])\')',
        ),
    ],
    "howto/signing-in.md": [
        Step(
            "login_link ada",
            before="export DJANGO_SUPERUSER_PASSWORD=a-long-password-of-ada\n"
            "rolldeck admin createsuperuser --noinput --username ada --email ada@example.org",
            expected="/login/once#",
        ),
    ],
    "howto/tokens.md": [
        Step('"quick start"', before=FREE.format("my-run"), after='test -n "$ROLLDECK_TOKEN"'),
        Step("scored_data", expected='"kind": ?"group"'),
        Step("calls.jsonl", before="ln -sfn $ROLLDECK_VAR var", expected="scored_data"),
    ],
    "howto/openenv.md": [Step("ROLLDECK_OPENENV", after=CHECK)],
    "howto/ray-cluster.md": [Step("ROLLDECK_RAY_RUNTIME_ENV", after=CHECK)],
    "howto/serving.md": [
        Step('gpu:8000", "model": "mine", "weights_directory"', after=CHECK),
        Step("router:8080", after=CHECK),
    ],
    "howto/trainers.md": [
        Step(
            'run="my-run", token=TOKEN',
            before="free('my-run')\nfleet('my-run', num_steps=2)\n"
            "weights = lambda: tensors('my-run')\nlearn = print",
        ),
        Step(
            "async with AsyncTrainer",
            before="from rolldeck import AsyncTrainer\noutside('my-run')\n"
            "async def learn(batch): print(batch.padded()['tokens'].shape)",
        ),
        Step(
            "rank=rank",
            before="rank, world_size = 0, 1\noutside('my-run')\n"
            "learn = lambda batch: print(batch.padded()['tokens'].shape)",
        ),
        Step(
            "import transitions, vtrace",
            before="arrays = rolled_out().stack()\n"
            "value_of = lambda obs: obs.mean(-1)\n"
            "logprob_of = lambda obs, action: np.zeros(action.shape[:2])",
            after="assert learned.advantages.shape == arrays['mask'].shape",
        ),
        Step("import join, stack", before="batch = rolled_out()"),
        Step(
            "import PopArt",
            before="from types import SimpleNamespace\narrays = rolled_out().stack()\n"
            "mask = arrays['mask']\nvalue_of = lambda obs: obs.mean(-1)\n"
            "learned = SimpleNamespace(targets=np.ones(mask.shape))\n"
            "head_weight, head_bias = np.ones((1, 4)), np.zeros(1)\n"
            "head = SimpleNamespace(weight=head_weight, bias=head_bias)",
        ),
    ],
    "howto/policies.md": [
        Step("--weights weights.safetensors --config run.json", expected="episodes|mean"),
    ],
    "howto/followers.md": [
        Step('name="archive"', before="keep = print", expected="tokens|Group|groups|\\["),
    ],
    "howto/grpo.md": [
        Step(
            "import of_batch",
            before="outside('scored')\n"
            "trainer = Trainer(url, 'scored', token)\ntrainer.register()\n"
            "batch = trainer.next_batch()",
            after="assert advantage.shape == teaches.shape",
        ),
    ],
    "howto/language.md": [
        Step(
            "preset curriculum",
            after="rolldeck api POST runs/words/kill reason=test",
            expected="words",
        ),
        Step(
            "class Parity",
            before="import random",
            after="example = Parity().example(random.Random(0), key='a')\n"
            "from types import SimpleNamespace\n"
            "turns = [SimpleNamespace(text=example.answer)]\n"
            "assert Parity().reply(example, turns).is_correct",
        ),
    ],
    "howto/lessons.md": [
        Step(
            "class Learnability",
            after="assert Learnability().shares({'a': 1.0, 'b': 3.0}) == {'a': 0.25, 'b': 0.75}",
        ),
    ],
    "howto/prompts.md": [
        Step("ROLLDECK_INFERENCE_SERVERS", after=CHECK),
        Step("ROLLDECK_REWARDS", after=CHECK),
        Step("ROLLDECK_TOOL_SERVERS", after=CHECK),
        Step(
            "def brevity",
            after="assert brevity(prompt='', response='a' * 100, answer='', row={}) == 0.5",
        ),
    ],
    "explanation/batches.md": [
        Step("advantages=rloo", expected="rloo"),
    ],
    "reference/lists.md": [
        Step("connection.rows", before="from rolldeck.http import Connection", expected="running"),
    ],
    "reference/api.md": [Step("rolldeck api GET runs", expected='"results"')],
}
"""Blocks that run against a server, in order, by page."""

ELSEWHERE: Final = {
    "start/environment.md": "tests/system/test_documented_path.py",
    "start/reward.md": "tests/system/test_documented_path.py",
    "start/trainer.md": "tests/system/test_documented_path.py",
    "start/bad-run.md": "tests/system/test_documented_path.py",
    "start/first-run.md": "tests/system/test_documented_path.py",
    "start/install.md": "tests/system/test_wheels.py",
    "howto/torchrl.md": "tests/partners/test_torchrl.py",
    "howto/transfer-queue.md": "tests/partners/test_transfer_queue.py",
    "howto/trackers.md": "tests/partners/test_trackers.py",
    "howto/trl.md": "tests/system/test_partner_tutorials.py",
    "howto/verifiers.md": "tests/partners/test_verifiers_lessons.py",
    "howto/atropos.md": "tests/system/test_partner_tutorials.py",
    "howto/backup.md": "tests/system/test_backup_and_restore.py",
    "howto/example-runs.md": "tests/e2e/screenshots.py",
}
"""Pages whose blocks need another interpreter, package or server, and the test that has it."""

NOT_RUN: Final[dict[str, dict[str, str]]] = {
    "explanation/gpu.md": {"": "measures a GPU for minutes"},
    "explanation/performance.md": {"": "measures for an hour"},
    "explanation/learning.md": {"": "trains for hours; test_learning_table.py"},
    "explanation/reliability.md": {"": "runs for minutes; tests/system/test_chaos.py"},
    "howto/alerts.md": {
        "": "starts a server that sends webhooks or mail",
    },
    "howto/archive.md": {"": "commands of the server; tests/integration/buffer/archive has them"},
    "howto/environments.md": {"useradd": "creates a user of the machine"},
    "howto/language.md": {
        "rolldeck evaluate": "needs a trained checkpoint",
        "rolldeck_server import": "tests/unit/rollouts/fleet/groups/test_manager_page.py",
        "rolldeck rollout": "tests/unit/rollouts/fleet/groups/test_manager_page.py",
    },
    "howto/grpo.md": {"example grpo": "trains; tests/system/test_demo_grpo.py does so"},
    "howto/openenv.md": {"group_of_traces": "needs OpenEnv; tests/partners/test_openenv_traces.py"},
    "howto/own-servers.md": {"": "needs servers of another machine, or Docker"},
    "howto/policies.md": {
        "spaces_of(": "tests/unit/rollouts/fleet/policies/test_policies_page.py",
        "trainer.next_batch(wait": "tests/unit/rollouts/fleet/policies/test_policies_page.py",
        "StepRolloutWorker": "tests/unit/rollouts/fleet/policies/test_policies_page.py",
        "own_policy": "installs a package; tests/unit/examples/test_devices.py trains with it",
        "--run demo": "needs a fleet with 120 versions",
    },
    "howto/ray-cluster.md": {"": "needs a Ray cluster; tests/ray/test_existing_cluster.py"},
    "howto/serving.md": {"": "starts vLLM or servers of checkpoints; tests/partners/test_vllm*.py"},
    "howto/trainers.md": {
        "RolloutDataset": "names a GPU; tests/api/client/test_lease_windows.py has it on a CPU",
        "example ppo": "trains for minutes; tests/system/test_examples.py",
    },
    "howto/watching.md": {"workers/1/restart": "restarts one of several workers; tests/ray has it"},
}
"""Blocks that no test runs as written, with the reason."""
