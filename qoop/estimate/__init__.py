"""Estimates of rows, work and completion times, corrected by measured stages. Pure."""
