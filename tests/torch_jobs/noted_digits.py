"""The digits example; rank 0 notes, in a file of this start, the first plan that is in force in it.

python -m tests.torch_jobs.noted_digits --notes=FOLDER ...
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from themis_agent.communication import session
from themis_agent.examples import digits_torch
from yarn_plugin import files


def note(folder):
    while session._session is None or not session._session.enforcer.version:
        time.sleep(0.05)
    plan = session._session.trace().plan
    content = {"version": session._session.enforcer.version, "ranks": [one.ranks for one in plan.operations]}
    files.write(folder / f"{time.time_ns()}.json", json.dumps(content))


def main():
    folder = Path(sys.argv.pop(1).partition("=")[2])
    if os.environ.get("RANK") == "0":
        threading.Thread(target=note, args=(folder,), daemon=True).start()
    digits_torch.main()


if __name__ == "__main__":
    main()
