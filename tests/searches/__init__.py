"""Searches as applications on a real cluster, with real training in their containers."""
