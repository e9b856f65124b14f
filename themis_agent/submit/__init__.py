"""Submitting a search to YARN: checks, staged code, the application itself; finding and stopping it later."""
