"""A batch application whose containers sleep: `python -m tests.leased.batch TASKS SECONDS`, as a YARN container."""

import os
import sys
import time
from pathlib import Path

from themis_agent.yarn.application_master import ApplicationMaster, Size
from themis_agent.yarn.gateway import launch


def main(tasks, seconds):
    master = ApplicationMaster(launch(Path(os.environ["HADOOP_CONF_DIR"]), heap_mb=96))
    master.register()
    for number in range(tasks):
        master.request(number + 1, Size(128))
    failed, ended = 0, 0
    while ended < tasks:
        beat = master.heartbeat(ended / tasks)
        for container in beat.allocated:
            master.start(container, f"exec sleep {seconds}", {})
        ended += len(beat.completed)
        failed += sum(one.exit_status != 0 for one in beat.completed)
        time.sleep(0.1)
    master.finish(succeeded=not failed)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
