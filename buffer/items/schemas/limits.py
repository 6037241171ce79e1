"""API schema of the server's limits."""

from msgspec import Struct


class LimitsAnswer(Struct, frozen=True, kw_only=True):
    """Limits of the server; names contain the units."""

    max_body_bytes: int
    max_decompressed_bytes: int
    max_decompression_ratio: int
    max_weights_bytes: int
    max_header_bytes: int
    max_header_seconds: int
    max_idle_seconds: int
    max_wait_seconds: int
    max_json_depth: int
    max_json_values: int
    max_groups_per_push: int
    max_sequences_per_group: int
    max_tokens_per_sequence: int
    max_tokens_per_group: int
    max_values_per_group: int
    max_queued_groups: int
    max_queued_fragments: int
    max_run_bytes: int
    min_free_disk_bytes: int
    """Pushes are refused while less disk is free."""
    max_token_id: int
