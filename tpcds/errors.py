"""What can go wrong here, each as one line for a person."""

from yarn_plugin.errors import ReportedError


class TpcdsError(ReportedError):
    """The root of this package's errors."""


class IncompleteDataError(TpcdsError):
    """A data set lacks tables or files."""


class GenerationError(TpcdsError):
    """The generator failed, or may not write where it was told to."""


class NotInstalledError(TpcdsError):
    """A package of the `tpcds` extra is missing or does not fit the others."""


class ChangedTextError(TpcdsError):
    """A published query no longer holds the text that a substitution replaces."""


class EngineError(TpcdsError):
    """An engine could not answer a query; the run goes on with the next one."""
