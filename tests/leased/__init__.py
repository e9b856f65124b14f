"""Applications under leases on YARN that train nothing: their containers sleep, and record when they held which GPU."""
