"""Pools: a queue subtree, the resources divided in it, and the controller that divides them."""
