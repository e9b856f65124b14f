"""Training scripts as examples of docs/trials.md."""
