"""Errors of this package; each message is one line."""

from yarn_plugin.errors import ReportedError


class TpcdsError(ReportedError):
    """Base class of this package's errors."""


class IncompleteDataError(TpcdsError):
    """Tables or files of a data set are missing."""

    exit_code = 2


class GenerationError(TpcdsError):
    """The generator failed, or the output directory cannot be used."""


class NotInstalledError(TpcdsError):
    """A package of the `tpcds` extra is missing or incompatible."""


class ChangedTextError(TpcdsError):
    """A published query does not contain the text that a substitution replaces."""


class EngineError(TpcdsError):
    """A query failed on an engine; the run continues with the next one."""
