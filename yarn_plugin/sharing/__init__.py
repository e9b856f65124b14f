"""Sharing GPUs by predicted interference: files, queues, and experiments with them."""
