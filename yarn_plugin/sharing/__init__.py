"""Sharing GPUs by predicted interference: files, and how well predictions do."""

from yarn_plugin.decide.mechanisms.interference import Interference, Pair, Profile

__all__ = ["Interference", "Pair", "Profile"]
