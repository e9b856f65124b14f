"""Tables as files: their columns, and statistics of them, read without an engine."""
