"""Benchmarks: ratios measured in one run, checked against `spec.toml`."""
