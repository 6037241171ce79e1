"""Models of the data between sampling and training."""

from buffer.models.archives import ArchiveJob
from buffer.models.audits import LedgerAudit
from buffer.models.captures import CapturedCall, CaptureSession
from buffer.models.digests import DigestCursor, GroupDigest
from buffer.models.items import (
    Batch,
    FragmentChunk,
    Item,
    MixingShare,
    Tally,
    TrajectoryGroup,
)
from buffer.models.marks import GroupMark, GroupSet, LabelName, SetMember
from buffer.models.payloads import Payload, Segment
from buffer.models.pushes import IdempotencyRecord, UnansweredPush
from buffer.models.replay import BatchUse, Follower

__all__ = [
    "ArchiveJob",
    "Batch",
    "BatchUse",
    "CaptureSession",
    "CapturedCall",
    "DigestCursor",
    "Follower",
    "FragmentChunk",
    "GroupDigest",
    "GroupMark",
    "GroupSet",
    "IdempotencyRecord",
    "Item",
    "LabelName",
    "LedgerAudit",
    "MixingShare",
    "Payload",
    "Segment",
    "SetMember",
    "Tally",
    "TrajectoryGroup",
    "UnansweredPush",
]
