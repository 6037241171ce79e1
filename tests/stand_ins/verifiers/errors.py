"""Errors that end a rollout, not a batch."""


class Error(Exception):
    """Base class of these errors."""


class ModelError(Error):
    """The client failed; `__cause__` holds the reason."""


class OverlongPromptError(Error):
    """The prompt exceeds the context."""
