"""The arbiter with the toys, as a process: `python -m tests.toys.arbiter RM STATE LISTEN CONFIG`; with `earlier`
after it, its lease pools are led by the lease controller, as those of earlier versions."""

import logging
import sys
from pathlib import Path

from tests.toys.registry import TOYS
from yarn_plugin.drive import config
from yarn_plugin.drive.serve import serve
from yarn_plugin.serving.address import parse_listen

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    rm, state, listen, file, *version = sys.argv[1:]
    if version == ["earlier"]:
        config.on_ledger = lambda settings, records_s: settings
    serve([rm], config.load(Path(file), TOYS), parse_listen(listen, None, None, 8780, "tokens"), Path(state),
          lambda url, token: None, registry=TOYS, registry_at="tests.toys.registry:TOYS")  # fmt: skip
