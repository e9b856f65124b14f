"""Bids: from profiles and the work that is left to finish times, finish-time fairness and bid tables. Pure.

    work = single_job(Job("0", iterations_left=1000, iteration_s=0.5, max_gpus=4))   # themis_agent.search.work
    estimate(work, request, elapsed_s)   # EstimateRequest -> Estimate
    bid_table(work, offer, elapsed_s)    # GpuOffer -> Bid

`elapsed_s`: seconds since the application arrived.
"""

from themis_agent.bids.table import bid_table, estimate

__all__ = ["bid_table", "estimate"]
