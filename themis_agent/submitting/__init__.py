"""Submitting a search to YARN: checks, staged code, the application; finding and stopping it later."""
