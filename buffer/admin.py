"""Import the admin of every capability, and add their models to the deletion of a run."""

from buffer.archive import admin as archive
from buffer.archive.models import ArchiveJob
from buffer.batches import admin as batches
from buffer.capture import admin as capture
from buffer.capture.models import CaptureSession
from buffer.followers import admin as followers
from buffer.followers.models import Follower
from buffer.ingest import admin as ingest
from buffer.inspect import admin as inspect
from buffer.items import admin as item_counts
from buffer.items.models import Batch, FragmentChunk, MixingShare, Tally, TrajectoryGroup
from buffer.payloads import admin as payloads
from buffer.tensors import admin as tensors
from buffer.tensors.models import StoredTensor
from runs.lifecycle.admin import EnvironmentAdmin, RunAdmin, TrainerAdmin

__all__ = [
    "archive",
    "batches",
    "capture",
    "followers",
    "ingest",
    "inspect",
    "item_counts",
    "payloads",
    "tensors",
]

RunAdmin.belonging += [
    *(Batch, TrajectoryGroup, FragmentChunk, Tally, MixingShare, ArchiveJob, Follower),
    CaptureSession,
    StoredTensor,
]
TrainerAdmin.belonging += [Batch]
EnvironmentAdmin.belonging += [TrajectoryGroup, Tally, MixingShare]
