"""Writes the journal of a query without running one."""

from types import SimpleNamespace


def took(journal, at, event, commands, phase):
    """Note an event and what was commanded on it, as a run would."""
    journal.seq += 1
    journal.input(journal.seq, at, event)
    journal.decision(journal.seq, at, commands, SimpleNamespace(phase=phase))
