"""Metadata of forms in the schema: essential fields, conditions, and the order of lessons."""

from collections.abc import Iterator
from typing import Any

from runs.config.rules import run_config

SCHEMA = run_config.json_schema()


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    whole = [schema, *schema.get("anyOf", [])]
    name = next((one["$ref"] for one in whole if "$ref" in one), "").rpartition("/")[2]
    return {**SCHEMA["$defs"].get(name, {}), **schema}


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, raw in resolved(schema).get("properties", {}).items():
        place = f"{path}.{name}" if path else name
        yield place, raw
        yield from fields(raw, place)


FIELDS = dict(fields(SCHEMA))


def test_every_condition_names_a_field_and_values_that_it_may_have() -> None:
    conditions = [one for field in FIELDS.values() for one in field.get("x-when", [])]

    assert len(conditions) > 20
    for condition in conditions:
        on = FIELDS[condition["field"]]
        values = [*condition.get("is", []), *condition.get("not", [])]
        assert values or condition["starts"]
        for value in values:
            assert on.get("default") is None or type(value) is type(on["default"])
            assert value in on.get("enum", [value])


def test_essential_fields_are_few_and_belong_to_each_kind_of_run() -> None:
    essential = [path for path, field in FIELDS.items() if field.get("x-essential")]

    assert {"environment.spec", "fleet.num_workers", "policy.kind"} <= {*essential}
    assert {"buffer.batch_size", "num_steps", "seed", "language.lessons"} <= {*essential}
    assert len([path for path in essential if not path.startswith("language.")]) <= 12


def test_the_order_of_lessons_is_in_a_field_of_the_configuration() -> None:
    assert FIELDS["language.lessons"]["x-order"] == "language.lesson_order"
    assert FIELDS["language.lesson_order"]["type"] == "array"
