"""The progress bar of simulations."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from yarn_plugin import console


def progress_bar(unit: str) -> Progress:
    """A progress bar on stderr, if it is a terminal. `unit`: what is counted, such as "applications"."""
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    shown = console.err.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console.err, transient=True, disable=not shown)
