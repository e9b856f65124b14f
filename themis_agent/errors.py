"""Errors of the training side: each message is a line for a person."""

from yarn_plugin.errors import ReportedError


class TrialError(ReportedError):
    """A trial cannot be started or goes no further."""


class StoreError(ReportedError):
    """The checkpoint store is away, full, or refuses. It may work later."""


class SupersededError(TrialError):
    """A later epoch of the trial has begun: this one must write nothing more."""
