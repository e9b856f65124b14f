"""A live table of a search in a notebook, if the program runs in one."""

import sys
import time
from collections.abc import Callable

from themis_agent.agent.state import State
from themis_agent.local.progress import summary
from themis_agent.study import as_html, trials_of

REDRAWN_S = 1.0


def live_table(name: str, metric: str) -> Callable[[State], object] | None:
    """What shows a search below the cell that runs it, drawn again as it goes on; None outside of notebooks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    handle, drawn_at = display(HTML(f"{name}: begins"), display_id=True), 0.0

    def draw(state: State) -> None:
        nonlocal drawn_at
        if state.is_at_rest or time.monotonic() >= drawn_at + REDRAWN_S:
            handle.update(HTML(as_html(f"{name}: {summary(state)}", metric, trials_of(state))))
            drawn_at = time.monotonic()

    return draw
