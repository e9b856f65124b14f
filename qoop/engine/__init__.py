"""Stages on Spark: run, store outputs, cancel; executors added and removed. Only this package knows Spark."""
