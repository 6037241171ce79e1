"""Admin of stored tensors."""

from buffer.tensors.models import StoredTensor, TensorObject
from web.admin.read_only import RUN_FILTER, register_read_only

register_read_only(
    TensorObject,
    columns="name run_link size_bytes created_at",
    filters=(RUN_FILTER,),
    search_fields=("name", "run__name"),
    search_help="Name of an object or of its run",
    ordering=("-pk",),
    hidden=("content",),
)
register_read_only(
    StoredTensor,
    columns="key run_link dtype shape size_bytes",
    filters=(RUN_FILTER,),
    search_fields=("key", "run__name"),
    search_help="Key of a tensor, or name of its run",
    joins=("object",),
)
