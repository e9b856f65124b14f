"""The query side: candidate plans, checkpoints, switching."""
