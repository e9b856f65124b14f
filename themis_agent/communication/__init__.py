"""The communication of a training job, planned as a whole (docs/communication.md)."""
