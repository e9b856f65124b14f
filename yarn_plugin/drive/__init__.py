"""Drivers of the same pure step: in real time, in virtual time, from a journal."""
