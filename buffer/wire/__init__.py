"""API schemas and decoders of small bodies and trajectory groups."""

from buffer.wire.bodies import (
    BodyProblem,
    EnvIdentifier,
    InvalidBody,
    RegisterEnv,
    Registration,
    decode,
)
from buffer.wire.groups import Group
from buffer.wire.groups_json import decode_group, decode_groups
from buffer.wire.groups_msgpack import InvalidGroups, decode_json_push, decode_push

__all__ = [
    "BodyProblem",
    "EnvIdentifier",
    "Group",
    "InvalidBody",
    "InvalidGroups",
    "RegisterEnv",
    "Registration",
    "decode",
    "decode_group",
    "decode_groups",
    "decode_json_push",
    "decode_push",
]
