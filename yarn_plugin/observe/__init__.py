"""Polls the ResourceManager over REST and delivers its changes as events."""
