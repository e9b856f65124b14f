"""One query on its way: the loop around the state machine, its journal, its progress."""
