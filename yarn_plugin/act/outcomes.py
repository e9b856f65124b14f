"""Reports the outcomes of commands to the arbiter."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from yarn_plugin.observe.delivery import Stopped

log = logging.getLogger("yarn_plugin.arbiter")

Outcome = TypeVar("Outcome")


def report(outcome: Outcome, emit: Callable[[Outcome], object], counters: Counter[str], what: str) -> None:
    """Emit an outcome; log and count (`outcomes_lost`) one on which the arbiter fails. `what`: the command.

    Raises:
        Stopped: the arbiter has stopped.
    """
    try:
        emit(outcome)
    except Stopped:
        raise
    except Exception:
        counters["outcomes_lost"] += 1
        log.exception("internal error: the result of %s was lost; shares may be outdated. Report this error", what)
