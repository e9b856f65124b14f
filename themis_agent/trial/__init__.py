"""What a training script calls under `themis_agent` (docs/trials.md), and the launcher that runs it."""

from themis_agent.trial.script import checkpoint_dir, newest_checkpoint, report, save_checkpoint, should_stop

__all__ = ["checkpoint_dir", "newest_checkpoint", "report", "save_checkpoint", "should_stop"]
