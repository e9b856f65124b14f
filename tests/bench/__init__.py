"""Measurements, as ratios in one run, against what is expected of them (`spec.toml`)."""
