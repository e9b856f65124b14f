"""The lease controller: GPUs are leased for a time, in rounds (Themis, thesis sections 3.3.3 and 3.4)."""

from yarn_plugin.decide.pools.lease.controller import KIND
from yarn_plugin.decide.pools.lease.settings import LeaseSettings

__all__ = ["KIND", "LeaseSettings"]
