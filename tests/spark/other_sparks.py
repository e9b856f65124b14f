"""Programs with another version of pyspark. QOOP_PYSPARKS: a folder with a directory for each version, filled by
`pip install --no-deps --target`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

SPARKS = Path(os.environ.get("QOOP_PYSPARKS") or "/nowhere")


def run_with(spark, program, *arguments, timeout_s, cwd=None):
    """Run a program with the pyspark in a folder: the JSON after "TOLD " in its output, if any, and all its output."""
    path = os.pathsep.join([str(spark), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    told = [line.removeprefix("TOLD ") for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    return json.loads(told[0]) if told else None, f"{done.stdout}{done.stderr}"
