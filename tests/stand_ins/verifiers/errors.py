"""Errors that end a rollout, not a batch."""


class Error(Exception):
    """Any of them."""


class ModelError(Error):
    """The client failed; the cause says how."""


class OverlongPromptError(Error):
    """The context has no room for the prompt."""
