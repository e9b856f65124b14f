"""A one-machine Hadoop: its jars, its configuration and its daemons, all real, all on the loopback interface.

Use it through `yarn_plugin.embedded.cluster`: `up(spec)`, `load(directory)`, and the `Cluster` both return.
"""
