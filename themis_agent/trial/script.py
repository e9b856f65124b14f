"""What a training script calls; nothing but the standard library. Without a launcher, it does nothing in its way.

checkpoint = newest_checkpoint() # a directory, or None ... report(step, loss) if step % 100 == 0: with
save_checkpoint(step) as directory: ... # rank 0 alone if should_stop(): break # at the same step in all processes

The launcher and a script share a directory, THEMIS_TRIAL_DIR: `reports` is a named pipe, from scripts to the launcher,
of lines of JSON; the file `stop` appears after SIGTERM.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

REPORTS, STOP = "reports", "stop"
"""Names in THEMIS_TRIAL_DIR."""

_COMPLETE = re.compile(r"step-(\d{1,12})")
_signalled = threading.Event()


def checkpoint_dir() -> Path:
    """THEMIS_CHECKPOINT_DIR, where complete checkpoints are the directories `step-N`; `checkpoints` without a
    launcher.
    """
    directory = Path(os.environ.get("THEMIS_CHECKPOINT_DIR", "checkpoints"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def newest_checkpoint() -> Path | None:
    """The complete checkpoint of the latest step."""
    found = complete_checkpoints(checkpoint_dir())
    return found[max(found)] if found else None


@contextlib.contextmanager
def save_checkpoint(step: int) -> Iterator[Path]:
    """A new directory to write a checkpoint into. It is complete, under its name `step-N`, when the block ends."""
    final = checkpoint_dir() / checkpoint_name(step)
    partial = final.with_name(f"{final.name}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    yield partial
    if final.exists():
        # An earlier one of the same step stays until the new one is whole.
        final.rename(final.with_name(f"{final.name}.{time.time_ns()}.old"))
    partial.rename(final)


def complete_checkpoints(directory: Path) -> dict[int, Path]:
    """The complete checkpoints in a directory, by step."""
    with os.scandir(directory) as entries:
        named = [(_COMPLETE.fullmatch(entry.name), entry) for entry in entries]
        return {int(match[1]): Path(entry.path) for match, entry in named if match and entry.is_dir()}


def checkpoint_name(step: int) -> str:
    """The name of the directory with the checkpoint of a step."""
    return f"step-{step}"


def report(step: int, loss: float, **metrics: float) -> None:
    """Report that a step was executed, from rank 0 at least. A loss of NaN ends the trial as failed. `metrics`: others,
    by name, which are shown and can be constrained, such as `accuracy=0.9`.
    """
    directory = os.environ.get("THEMIS_TRIAL_DIR")
    if directory is None:
        return
    rank = int(os.environ.get("RANK", "0"))
    others = {"metrics": {name: float(value) for name, value in metrics.items()}} if metrics else {}
    line = json.dumps({"step": int(step), "loss": float(loss), "at": time.time(), "rank": rank, **others}) + "\n"
    try:
        # Without a launcher that reads, opening fails: the script is not disturbed.
        pipe = os.open(Path(directory) / REPORTS, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.set_blocking(pipe, True)
        os.write(pipe, line.encode())
    except BrokenPipeError:
        pass
    finally:
        os.close(pipe)


def should_stop() -> bool:
    """Whether to write a checkpoint and end. True first in one process, a little later in the others: agree on the
    step.

    From its first call on, SIGTERM no longer ends the process, unless the script handles SIGTERM itself.
    """
    _handle_sigterm()
    directory = os.environ.get("THEMIS_TRIAL_DIR")
    return _signalled.is_set() or (directory is not None and (Path(directory) / STOP).exists())


def _handle_sigterm() -> None:
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _note_sigterm)


def _note_sigterm(_signal: int, _frame: FrameType | None) -> None:
    _signalled.set()
