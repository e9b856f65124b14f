"""Hyperparameter searches: which trials live, and how long. Pure."""
