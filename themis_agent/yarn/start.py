"""Starts a program of ours on a node, in any Python 3:

    python start.py [--submission FOLDER] CACHE_TAG MACHINE MODULE ARGUMENT...

The staged packages are compiled for one version of Python and one type of machine, such as cpython-311 and x86_64. With
another interpreter one of them would fail; this program says what is wrong, and otherwise becomes
`python -P -m MODULE ARGUMENT...`. `--submission`: it waits until the submission in this folder, a path or a webhdfs://
URL, is complete: an application can be registered at the arbiter only after YARN has accepted it.

Only the standard library: it runs by its path, before anything else can be imported.
"""

import getpass
import http.client
import json
import os
import platform
import re
import sys
import time
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

COMPLETE_WITHIN_S = 120.0
POLL_S = 0.1

_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+$")


def main(words: "list[str]") -> str:
    """Become the program. Returns why not."""
    folder = None
    if words[0] == "--submission":
        folder, words = words[1], words[2:]
    (tag, machine), command = words[:2], words[2:]
    here = sys.implementation.cache_tag, platform.machine()
    if here != (tag, machine):
        return (
            "{} on {} is {} for {}; the search was submitted with {} for {}: set [environment] python in its file to "
            "such an interpreter of the nodes".format(sys.executable, platform.node(), *here, tag, machine)
        )
    if folder is not None and not _is_complete(folder):
        return f"{folder}: the submission was not completed within {COMPLETE_WITHIN_S:g} s"
    # -P: files of the search in the working directory must not take the place of modules that ours import.
    return os.execv(sys.executable, [sys.executable, "-P", "-m", *command])


def _is_complete(folder: str) -> bool:
    """Wait until the folder has the submission of this application: it may hold that of an earlier one."""
    found = _CONTAINER.search(os.environ.get("CONTAINER_ID", ""))
    deadline = time.monotonic() + COMPLETE_WITHIN_S
    while time.monotonic() < deadline:
        try:
            with _opened(folder) as file:
                if found is None or json.load(file)["yarn_app"] == "application_" + found.group(1):
                    return True
        except (OSError, ValueError, LookupError, http.client.HTTPException):
            pass
        time.sleep(POLL_S)
    return False


def _opened(folder: str) -> "IO[bytes]":
    if not folder.startswith("webhdfs://"):
        return open(os.path.join(folder, "submission.json"), "rb")  # noqa: PTH118, PTH123
    host, _, path = folder[len("webhdfs://") :].partition("/")
    query = urllib.parse.urlencode({"op": "OPEN", "user.name": getpass.getuser()})
    address = "http://{}/webhdfs/v1/{}/submission.json?{}".format(host, path, query)  # noqa: UP032
    # Never by a proxy. It follows the redirection to a DataNode.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(address, timeout=30.0)  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
