"""The cluster side: the arbiter of every application's share, and YARN itself."""
