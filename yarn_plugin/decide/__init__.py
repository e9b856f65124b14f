"""The decisions of the arbiter: pure functions, without I/O, clock or threads."""
