"""The journal: inputs, decisions, snapshots, compaction and recovery after a crash.

Published: the arbiter and the query driver each write one.
"""
