"""A signal that stops a query is not lost."""

import subprocess
import sys

PROGRAM = """
import os, signal, sys, time
from qoop.submit.driver import interrupt_on_signals

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)

interrupt_on_signals()
try:
    made = Finalised()
    del made
    time.sleep(30)
except KeyboardInterrupt:
    sys.exit(3)
"""


def test_a_signal_that_arrives_while_an_object_is_finalised_stops_the_query():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (3, "")
