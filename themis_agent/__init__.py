"""Planned: the training side, with auctions for GPUs and finish-time fairness (Themis)."""
