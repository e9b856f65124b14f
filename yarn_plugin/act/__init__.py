"""Carries out commands on YARN; each outcome comes back as an event."""
