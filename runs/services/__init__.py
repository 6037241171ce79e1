"""Services that change runs and their records."""

from runs.services.calls import forget_calls, keep_calls
from runs.services.deck_notices import clear_notice, set_notice
from runs.services.deck_parts import (
    doubt_part,
    forget_dead_parts,
    forget_silent_parts,
    prove_part,
)
from runs.services.deck_samples import take_deck_sample
from runs.services.environment_settings import EnvironmentNotFound, change_environment
from runs.services.events import record_event
from runs.services.lifecycle import (
    ask,
    check_name,
    configured,
    create,
    create_and_start,
    move,
)
from runs.services.logins import make_login_link, redeem_login_token
from runs.services.notes import write_notes
from runs.services.presets import change_preset, delete_preset, save_preset
from runs.services.registry import (
    default_run,
    disconnect_environment,
    note_environments_seen,
    register_environment,
    register_trainer,
    reset_default_run,
    reset_run,
)
from runs.services.run_settings import change_settings
from runs.services.shelving import archive, set_tags, unarchive
from runs.services.tokens import (
    adopt_bootstrap_token,
    authenticate,
    mint_token,
    revoke_token,
    revoke_tokens_of,
)
from runs.services.weights import publish_weights
from runs.services.weights_orders import pin_weights, sync_weights, unpin_weights

__all__ = [
    "EnvironmentNotFound",
    "adopt_bootstrap_token",
    "archive",
    "ask",
    "authenticate",
    "change_environment",
    "change_preset",
    "change_settings",
    "check_name",
    "clear_notice",
    "configured",
    "create",
    "create_and_start",
    "default_run",
    "delete_preset",
    "disconnect_environment",
    "doubt_part",
    "forget_calls",
    "forget_dead_parts",
    "forget_silent_parts",
    "keep_calls",
    "make_login_link",
    "mint_token",
    "move",
    "note_environments_seen",
    "pin_weights",
    "prove_part",
    "publish_weights",
    "record_event",
    "redeem_login_token",
    "register_environment",
    "register_trainer",
    "reset_default_run",
    "reset_run",
    "revoke_token",
    "revoke_tokens_of",
    "save_preset",
    "set_notice",
    "set_tags",
    "sync_weights",
    "take_deck_sample",
    "unarchive",
    "unpin_weights",
    "write_notes",
]
