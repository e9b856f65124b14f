"""Stages on Spark: run, keep, cancel; executors up and down. The only room that knows Spark."""
