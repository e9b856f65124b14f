"""What can go wrong with the embedded cluster, each as one line that says what to do."""

from yarn_plugin.errors import ReportedError


class ClusterError(ReportedError):
    """The embedded cluster cannot do what was asked; the message says why and what would help."""


class ClusterInUseError(ClusterError):
    """The directory belongs to a cluster that is running, or another command is at work in it."""


class NoClusterError(ClusterError):
    """No cluster was ever brought up in this directory."""


class JavaError(ClusterError):
    """Java is missing or too old."""


class FetchError(ClusterError):
    """A jar could not be fetched, or is not the pinned one."""


class PortTakenError(ClusterError):
    """A port of the cluster is in use; the message names it and a free `--port-base`."""


class DaemonError(ClusterError):
    """A daemon did not start or did not end; the message carries its own log line."""
