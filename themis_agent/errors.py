"""Errors of the training side: each message is a line for a person."""

import errno

from yarn_plugin.errors import ReportedError

SHORTAGE_S = 5.0
"""How long to wait before what failed for want of room is tried again."""

_SHORTAGES = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
)


class TrialError(ReportedError):
    """A trial cannot be started or goes no further."""


class StoreError(ReportedError):
    """The checkpoint store is away, full, or refuses. It may work later."""


class SupersededError(TrialError):
    """A later epoch of the trial has begun: this one must write nothing more."""


def is_shortage(problem: OSError) -> bool:
    """Whether the machine had no room (disk, memory, processes) rather than that something is wrong for good."""
    return problem.errno in _SHORTAGES
