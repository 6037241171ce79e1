"""`rolldeck rollout` needs no platform, cluster or token."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.processes import descendants
from rolldeck import safetensors
from rolldeck.batches import FragmentView
from rolldeck.cli import main
from rolldeck.fragment_files import read_fragments
from rolldeck.training.chunks import join, stack
from rollouts.fleet.policies.networks import MlpPolicy
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.steps.local_rollout import Bound, InitialWeights, LocalRollout
from runs.config.rules import run_config
from tests import processes
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[5]
SMALL = {
    "policy": {"hidden_sizes": [8]},
    "fleet": {
        "num_workers": 2,
        "envs_per_worker": 4,
        "envs_per_process": 2,
        "inference_batch_size": 4,
        "fragment_length": 16,
    },
}
CONFIG = json.dumps(SMALL)


def roll(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["rollout", "--config", CONFIG, "--json", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def real_steps(fragments: list[FragmentView]) -> int:
    return sum(int(one["mask"].sum()) if "mask" in one else 16 for one in fragments)


def test_all_steps_of_a_rollout_are_in_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = roll(capsys, "--env-steps", "1000", "--out", str(tmp_path))
    fragments = list(read_fragments(tmp_path))

    assert 1000 <= found["env_steps"] < 1100
    assert (found["environment"], found["workers"]) == ("gymnasium:CartPole-v1", 2)
    assert real_steps(fragments) == found["env_steps"]
    assert len(fragments) == found["fragments"]
    # Env processes that start late, on a busy machine, may miss the rollout.
    slots = {one.fragment.slot for one in fragments}
    assert {slot.partition("@")[0] for slot in slots} <= {
        f"w{worker}-{slot}" for worker in range(2) for slot in range(4)
    }
    chunks = join(fragments)
    assert len(chunks) == len(slots) >= 2
    assert stack(chunks)["obs"].shape[2:] == (4,)
    lengths = []
    for chunk in chunks:
        [ends] = np.nonzero(chunk.arrays["terminated"])
        lengths += np.diff(ends, prepend=-1).tolist()
    assert len(lengths) == found["episodes"] > 10
    assert found["length_mean"] == found["return_mean"] == pytest.approx(np.mean(lengths))
    assert (found["return_min"], found["return_max"]) == (min(lengths), max(lengths))
    assert found["env_steps_per_second"] > 0
    logs = [log.read_text() for log in (tmp_path / "logs").glob("w?-slot-?.log")]
    assert any("starts" in log for log in logs)


def test_given_weights_choose_the_actions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = MlpPolicy(4, 2, [8])
    state = {name: value.numpy() for name, value in module.state_dict().items()}
    (tmp_path / "weights").write_bytes(safetensors.encode(state))

    given = ["--weights", str(tmp_path / "weights"), "--out", str(tmp_path / "out")]
    roll(capsys, "--env-steps", "200", *given)

    chunk = join(list(read_fragments(tmp_path / "out")))[0].arrays
    with torch.no_grad():
        logits, values = module(torch.from_numpy(chunk["obs"]))
    chosen = torch.distributions.Categorical(logits=logits).log_prob(
        torch.from_numpy(chunk["action"])
    )
    np.testing.assert_allclose(chunk["behavior_logprob"], chosen.numpy(), atol=1e-5)
    np.testing.assert_allclose(chunk["value"], values.numpy(), atol=1e-5)


def test_without_weights_the_policy_depends_on_the_seed(tmp_path: Path) -> None:
    first_values = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = str(tmp_path / name)
        given = ["--config", json.dumps(SMALL | {"seed": seed}), "--workers", "1", "--envs", "1"]
        assert main(["rollout", *given, "--env-steps", "16", "--out", out]) == 0
        [first, *_] = read_fragments(out)
        first_values.append(first["value"][0])

    assert first_values[0] == first_values[1] != first_values[2]


def test_initial_weights_depend_on_nothing_but_the_seed() -> None:
    shown = Space(kind="box", shape=(4,), dtype="float32")
    taken = Space(kind="discrete", shape=(), dtype="int64", choices=2)

    def drawn(seed: int) -> Any:
        config = run_config.parse(SMALL | {"seed": seed})
        return InitialWeights(config, None).tensors(shown, taken)["policy_net.0.weight"]

    before = torch.random.get_rng_state()
    np.testing.assert_array_equal(drawn(1), drawn(1))
    assert not np.array_equal(drawn(1), drawn(2))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_rollout_ends_after_episodes_or_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    by_episodes = roll(capsys, "--episodes", "20")
    by_time = roll(capsys, "--seconds", "0.5", "--workers", "1", "--envs", "2")

    assert 20 <= by_episodes["episodes"] < 40
    assert 0.5 <= by_time["seconds"] < 3
    assert by_time["workers"] == 1
    assert by_time["env_steps"] > 10


def test_the_result_is_a_table_without_json(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--preset", "recall", "--workers", "1", "--env-steps", "1"]

    assert main(["rollout", *given]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["environment"] == "rolldeck:recall-v0"
    assert shown["return_mean"] == "-"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--config", "missing.json"], 2, "missing.json"),
        (["--config", '{"fleet": {"workers": 2}}'], 2, "fleet.workers: unknown field"),
        (["--config", "{}", "--workers", "0"], 2, "fleet.num_workers"),
        (["--config", "{}", "--envs", "0"], 2, "fleet.envs_per_worker"),
        (["--preset", "curriculum"], 2, "--env-steps needs a configuration without lessons"),
        (["--weights", "missing.safetensors"], 2, "missing.safetensors"),
        (["--weights", __file__], 2, "test_rollout.py is not a safetensors file"),
        (["--environment", "gymnasium:Missing-v0"], 1, "no environment started: gymnasium"),
        (["--config", '{"policy": {"kind": "cnn"}}'], 1, "policy.kind: cnn needs images"),
    ],
)
def test_a_failure_has_a_reason_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, reason: str
) -> None:
    assert main(["rollout", "--env-steps", "100", *arguments]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("rolldeck rollout: ")
    assert reason in line


def test_weights_of_other_shapes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = {name: value.numpy() for name, value in MlpPolicy(4, 2, [9]).state_dict().items()}
    (tmp_path / "weights").write_bytes(safetensors.encode(state))

    given = ["--config", CONFIG, "--weights", str(tmp_path / "weights")]
    assert main(["rollout", *given, "--env-steps", "9"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "the weights of version 0 do not fit: names or shapes differ" in line


def test_a_folder_with_fragments_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roll(capsys, "--env-steps", "9", "--out", str(tmp_path))

    assert main(["rollout", "--env-steps", "9", "--out", str(tmp_path)]) == 2
    assert "already contains fragments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give one of --episodes, --env-steps, --seconds"),
        (["--episodes", "0"], "0 is not in the range x>=1"),
        (["--seconds", "nan"], "Invalid value for '--seconds'"),
        (["--episodes", "1", "--seconds", "1"], "give one of --episodes, --env-steps, --seconds"),
    ],
)
def test_a_bound_is_required_and_positive(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main(["rollout", *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_fragments_that_cannot_be_written_end_the_rollout(tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise OSError("the disk is full")

    rollout = LocalRollout(
        run_config.parse(SMALL),
        bound=Bound(env_steps=100_000),
        deliver=fail,
        warn=print,
        log_root=tmp_path,
    )

    with pytest.raises(OSError, match="the disk is full"):
        rollout.run()


def test_environments_that_raise_are_replaced_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"spec": "odd:counting", "kwargs": {"length": 40, "raises_at": 30}}
    given = json.dumps(SMALL | {"environment": broken})
    arguments = ["--config", given, "--env-steps", "400", "--out", str(tmp_path), "--json"]

    assert main(["rollout", *arguments]) == 0
    captured = capsys.readouterr()
    assert "restarted after an error: RuntimeError: broken at step 30" in captured.err
    found = json.loads(captured.out)
    assert found["episodes"] == 0
    assert found["return_mean"] is None
    assert found["unfinished_episodes"] >= 8


def test_environments_that_always_die_end_the_rollout_and_their_steps_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--config", CONFIG, "--environment", "odd:deadly", "--workers", "1"]

    assert main(["rollout", *given, "--env-steps", "100000", "--out", str(tmp_path)]) == 1
    *warnings, reason = capsys.readouterr().err.splitlines()
    assert warnings
    assert "every environment slot was given up: env process" in reason
    assert "ended with exit code 3" in reason
    assert real_steps(list(read_fragments(tmp_path))) >= 8


def start(*arguments: str) -> "subprocess.Popen[str]":
    paths = [ROOT, ROOT / "platform", ROOT / "client", os.environ["PYTHONPATH"]]
    code = "import sys; from rolldeck.cli import main; sys.exit(main(['rollout', *sys.argv[1:]]))"
    return processes.start(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def env_processes(command: "subprocess.Popen[str]") -> list[int]:
    lines = descendants(command.pid)
    return [pid for pid, line in lines.items() if "env_process" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_and_all_steps_are_written(
    tmp_path: Path, number: signal.Signals
) -> None:
    given = ["--config", CONFIG, "--seconds", "3600", "--out", str(tmp_path), "--json"]
    with start(*given) as command:
        eventually(lambda: [*tmp_path.glob("fragments-*.msgpack")])
        pids = env_processes(command)
        command.send_signal(number)
        out, err = command.communicate(timeout=60)

    assert (command.returncode, err) == (128 + number, "")
    assert len(pids) == 4
    assert all(map(processes.is_gone, pids))
    found = json.loads(out)
    fragments = list(read_fragments(tmp_path))
    assert real_steps(fragments) == found["env_steps"] > 0
    assert len(fragments) == found["fragments"]
    assert not list(tmp_path.glob(".*"))


def test_an_environment_that_hangs_delays_the_end_by_seconds_and_loses_no_step(
    tmp_path: Path,
) -> None:
    environment = {"spec": "one_hangs:x", "kwargs": {"marker": str(tmp_path / "hangs")}}
    given = json.dumps(SMALL | {"environment": environment})
    out = tmp_path / "out"
    with start(
        "--config", given, "--workers", "1", "--seconds", "3600", "--out", str(out), "--json"
    ) as command:
        eventually((tmp_path / "hangs").exists)
        pids = env_processes(command)
        command.send_signal(signal.SIGINT)
        shown, err = command.communicate(timeout=60)

    assert command.returncode == 130
    assert len(pids) == 2
    assert all(map(processes.is_gone, pids))
    unanswered = int(err.removeprefix("rolldeck rollout: ").split()[0])
    assert "environments did not answer within 5 s" in err
    assert 1 <= unanswered <= 2
    steps = real_steps(list(read_fragments(out)))
    assert steps == json.loads(shown)["env_steps"]


def test_a_second_signal_ends_the_command_at_once(tmp_path: Path) -> None:
    environment = {"spec": "one_hangs:x", "kwargs": {"marker": str(tmp_path / "hangs")}}
    given = json.dumps(SMALL | {"environment": environment})
    with start("--config", given, "--workers", "1", "--seconds", "3600") as command:
        eventually((tmp_path / "hangs").exists)
        pids = env_processes(command)
        command.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(timeout=1)
        command.send_signal(signal.SIGINT)
        shown, _ = command.communicate(timeout=60)

    assert (command.returncode, shown) == (-signal.SIGINT, "")
    for pid in pids:
        processes.wait_until_gone(pid)
