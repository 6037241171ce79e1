"""Models of the data between sampling and training."""

from buffer.archive.models import ArchiveJob
from buffer.capture.models import CapturedCall, CaptureSession
from buffer.followers.models import Follower
from buffer.ingest.models import IdempotencyRecord, UnansweredPush
from buffer.inspect.models import DigestCursor, GroupDigest, GroupMark
from buffer.items.models import (
    Batch,
    BatchUse,
    FragmentChunk,
    Item,
    LedgerAudit,
    MixingShare,
    ShortGroup,
    Tally,
    TrajectoryGroup,
)
from buffer.payloads.models import Payload, Segment
from buffer.problems.models import LessonProblem
from buffer.tensors.models import StoredTensor, TensorObject
from buffer.tokenizers.models import RunTokenizer, TokenizerFile

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
    "IdempotencyRecord",
    "Item",
    "LedgerAudit",
    "LessonProblem",
    "MixingShare",
    "Payload",
    "RunTokenizer",
    "Segment",
    "ShortGroup",
    "StoredTensor",
    "Tally",
    "TensorObject",
    "TokenizerFile",
    "TrajectoryGroup",
    "UnansweredPush",
]
