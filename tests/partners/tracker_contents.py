"""Print what a tracker has stored of a run, as JSON; runs in the environment of the trackers.

python tracker_contents.py mlflow URI PROJECT
python tracker_contents.py tensorboard LOGDIR PROJECT
python tracker_contents.py trackio FOLDER PROJECT
python tracker_contents.py wandb FOLDER PROJECT
"""

import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Contents = dict[str, Any]


def mlflow(uri: str, project: str) -> Contents:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(project)
    runs = client.search_runs([experiment.experiment_id])
    run = runs[0]
    run_id = run.info.run_id
    tags = run.data.tags
    rollouts = []
    for file in client.list_artifacts(run_id, "rollouts"):
        table = _artifact(client, run_id, file)
        rollouts += [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    return {
        "runs": len(runs),
        "name": run.info.run_name,
        "group": tags["rolldeck.group"],
        "status": run.info.status,
        "config": run.data.params,
        "scalars": {
            name: [[one.step, one.value] for one in client.get_metric_history(run_id, name)]
            for name in run.data.metrics
        },
        "events": [tags[name] for name in tags if name.startswith("rolldeck.event.")],
        "rollouts": [_text(**one) for one in rollouts],
    }


def _text(mode: str, environment: str, text: str, **_others: Any) -> str:
    """Return a row of a table of rollouts as one text."""
    return f"{mode} {environment}: {text}"


def _artifact(client: Any, run_id: str, file: Any) -> Contents:
    return json.loads(Path(client.download_artifacts(run_id, file.path)).read_text())


def tensorboard(folder: str, project: str) -> Contents:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    (group,) = (Path(folder) / project).iterdir()
    (run,) = group.iterdir()
    read = EventAccumulator(str(run), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    tags = read.Tags()
    texts = {
        tag: [make_ndarray(one.tensor_proto).item().decode() for one in read.Tensors(tag)]
        for tag in tags["tensors"]
    }
    return {
        "runs": 1,
        "name": run.name,
        "group": group.name,
        "config": json.loads(texts["config"][0]),
        "scalars": {
            tag: [[one.step, one.value] for one in read.Scalars(tag)] for tag in tags["scalars"]
        },
        "events": texts.get("rolldeck/events", []),
        "rollouts": texts.get("rolldeck/rollouts", []),
    }


def trackio(folder: str, project: str) -> Contents:
    os.environ["TRACKIO_DIR"] = folder
    from trackio.sqlite_storage import SQLiteStorage as Storage

    (record,) = Storage.get_run_records(project)
    name = record["name"]
    config = Storage.get_run_config(project, name)
    scalars: dict[str, list[list[float]]] = {}
    for row in Storage.get_logs(project, name):
        for key, value in row.items():
            if key not in ("step", "timestamp", "rollouts"):
                scalars.setdefault(key, []).append([row["step"], value])
    return {
        "runs": 1,
        "name": name,
        "group": config["_Group"],
        "config": config,
        "scalars": scalars,
        "events": [
            f"{one['title']}: {one['text']}" for one in reversed(Storage.get_alerts(project, name))
        ],
        "rollouts": [
            _text(
                one["metadata"]["mode"],
                one["metadata"]["environment"],
                "\n\n".join(f"{m['role']}: {m['content']}" for m in one["messages"]),
            )
            for one in Storage.get_traces(project, name)
        ],
    }


def wandb(folder: str, project: str) -> Contents:
    found: Contents = {"scalars": {}, "events": [], "rollouts": []}
    ids = set()
    for file in sorted(Path(folder).glob("wandb/offline-run-*/*.wandb")):
        for record in _records(file):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run = record.run
                assert run.project == project
                ids.add(run.run_id)
                config = {one.key: json.loads(one.value_json) for one in run.config.update}
                found |= {"name": run.display_name, "group": run.run_group, "config": config}
            elif kind == "exit":
                found["status"] = record.exit.exit_code
            elif kind == "history":
                _add_history(record.history, found, file.parent / "files")
    return found | {"runs": len(ids)}


def _add_history(history: Any, found: Contents, files: Path) -> None:
    row = {one.key or "/".join(one.nested_key): json.loads(one.value_json) for one in history.item}
    step = row.pop("train_step")
    if "rolldeck/event/kind" in row:
        found["events"].append(f"{row['rolldeck/event/kind']}: {row['rolldeck/event/message']}")
        return
    if path := row.get("rolldeck/rollouts/path"):
        stored = json.loads((files / path).read_text())
        rows = [dict(zip(stored["columns"], one, strict=True)) for one in stored["data"]]
        found["rollouts"] += [_text(**one) for one in rows]
        return
    for name, value in row.items():
        if not name.startswith("_") and name != "rolldeck/at":
            found["scalars"].setdefault(name, []).append([step, value])


def _records(path: Path) -> Iterator[Any]:
    """Yield the records of W&B's file: LevelDB's log format, in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, part = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        if kind == 0:
            return
        part += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(part)
            yield record
            part = b""


READERS = {"mlflow": mlflow, "tensorboard": tensorboard, "trackio": trackio, "wandb": wandb}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(READERS[sys.argv[1]](sys.argv[2], sys.argv[3])) + "\n")
