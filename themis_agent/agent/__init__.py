"""The side of the arbiter: what it says about leases, and what an application answers."""
