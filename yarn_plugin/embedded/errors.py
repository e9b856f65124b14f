"""Errors of the embedded cluster; each message is one line that says what to do."""

from yarn_plugin.errors import ReportedError


class ClusterError(ReportedError):
    """An operation on the embedded cluster failed; the message says why and what helps."""


class ClusterInUseError(ClusterError):
    """A cluster, or another command, is running in the directory."""


class NoClusterError(ClusterError):
    """The directory has never had a cluster."""


class JavaError(ClusterError):
    """Java is missing or too old."""


class FetchError(ClusterError):
    """A jar cannot be fetched, or its digest is not the pinned one."""


class PortTakenError(ClusterError):
    """A port of the cluster is in use; the message names it and a free `--port-base`."""


class DaemonError(ClusterError):
    """A daemon did not start or stop; the message quotes its log."""
