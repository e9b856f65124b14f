"""Running one query: the event loop around the state machine, the journal, and what the user is shown."""
