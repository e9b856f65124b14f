"""Who has had more than an equal part of the pool: what decides who is served first whatever applications say.

An auction is truthful among those who bid (Themis, thesis, theorem 3.2). Who bids is decided by rho, which
applications report, and a lone bidder pays nothing: one that always claims to be worst off would always be served
first. So reports order only applications whose service is alike. One that has leased more than an equal part of the
pool's GPU time since its arrival is ahead: it bids after all that are not, and gets what these leave. No statement of
its own changes that, and an equal part counts only while others take part: who had an empty pool to itself owes nobody.
"""

from yarn_plugin.decide.pools.lease.members import part_gpu_s
from yarn_plugin.decide.pools.lease.settings import THEMIS
from yarn_plugin.decide.pools.lease.turn import Turn

AHEAD = 1.15
"""From so many equal parts on. Not 1: equal finish-time fairness gives applications that can use many GPUs a little
more than those that can use few (equations 3.1 and 3.2)."""


def is_ahead(turn: Turn, app: str) -> bool:
    """Whether an application has leased so much that others come first."""
    by_rho = turn.settings.rules > 1 and turn.settings.policy == THEMIS
    part = part_gpu_s(turn, app) if by_rho else None
    return part is not None and turn.attained_gpu_s(app) > AHEAD * part
