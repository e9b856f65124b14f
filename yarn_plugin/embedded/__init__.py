"""A real Hadoop cluster on one machine: its jars, configuration and daemons, all on the loopback interface.

Use `yarn_plugin.embedded.cluster`: `up(spec)` and `load(directory)` return a `Cluster`.
"""
