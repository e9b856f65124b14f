"""The search for a plan as a process of its own: a trace with costs on standard input, the plan on standard output."""

import sys
import time

import numpy as np

from themis_agent.communication.capture import iteration_of
from themis_agent.communication.errors import PlanError
from themis_agent.communication.formats import Trace, dump, parse
from themis_agent.communication.planning import make_plan
from themis_agent.communication.search import Limits
from yarn_plugin.errors import ReportedError

BUDGET_S = 20.0


def main() -> int:
    """Search with the seed that is given."""
    until = time.monotonic() + BUDGET_S
    try:
        trace = parse(Trace, sys.stdin.read(), "standard input")
        if trace.costs is None:
            raise PlanError("trace: has no costs")
        numbers = np.random.default_rng(int(sys.argv[1]))
        iteration = iteration_of(trace.iterations)
        plan, _ = make_plan(iteration, trace.costs, numbers, Limits(), lambda: time.monotonic() > until)
    except ReportedError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(dump(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
