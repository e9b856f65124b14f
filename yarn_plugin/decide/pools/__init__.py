"""Pools: each a queue's subtree, the resources that are divided in it, and the controller that decides in it."""
