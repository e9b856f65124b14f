"""Run styles, each in a process of its own, whose output and errors go to one pipe, as those of a trial do."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.log_styles import styles

LOGS = Path(__file__).parent / "logs"


def write(style):
    """Run a style; write its log, and its truth."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "KERAS_BACKEND": "jax",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-W", "ignore", "-m", "tests.log_styles", "--run", style, f"{folder}/truth.json"]
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
        )
        if done.returncode:
            sys.exit(f"{style} failed:\n{done.stdout.decode(errors='replace')[-3000:]}")
        truth = json.loads(Path(f"{folder}/truth.json").read_text())
        log = done.stdout.replace(folder.encode(), b"FOLDER").replace(sys.prefix.encode(), b"PREFIX")
    log = log.replace(str(Path(__file__).parents[2]).encode(), b"REPOSITORY")
    (LOGS / f"{style}.log").write_bytes(log)
    (LOGS / f"{style}.json").write_text(json.dumps({"metric": styles.METRICS[style], **truth}) + "\n")
    print(f"{style}: {len(log)} bytes, {len(truth['values'])} values")


def main():
    """Write all styles, or those named."""
    if sys.argv[1:2] == ["--run"]:
        truth = styles.Truth()
        styles.STYLES[sys.argv[2]](truth)
        sys.stdout.flush()
        Path(sys.argv[3]).write_text(json.dumps({"steps": truth.steps, "shown": truth.shown, "values": truth.values}))
        return
    for style in sys.argv[1:] or styles.STYLES:
        write(style)


if __name__ == "__main__":
    main()
