"""The journal: what came in, what was decided, and how a process that was killed continues from it.

Public: every process of the product that decides (arbiter, query driver) keeps one.
"""
