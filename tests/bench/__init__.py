"""Benchmarks; their results are compared with the limits in `spec.toml`."""
