"""Join graphs, join trees, candidate plans and their equivalence. Pure."""
