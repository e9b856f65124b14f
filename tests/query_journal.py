"""Writes the journal of a query without running one."""

from types import SimpleNamespace


def record_input(journal, at, event, commands, phase):
    """Append an input and its decision, as a run does."""
    journal.seq += 1
    journal.input(journal.seq, at, event)
    journal.decision(journal.seq, at, commands, SimpleNamespace(phase=phase))
