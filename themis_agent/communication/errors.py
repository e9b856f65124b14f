"""Errors of planned communication: each message is a line for a person."""

from themis_agent.errors import TrialError


class CommunicationError(TrialError):
    """The communication of a training job cannot go on, or cannot be planned."""


class PlanError(CommunicationError):
    """A plan does not fit the job that it is for."""


class CommitError(CommunicationError):
    """The processes of a job cannot agree which plan is in force."""


class DifferentOperationsError(CommunicationError):
    """The processes of a job do not call the same collective operations in the same order."""
