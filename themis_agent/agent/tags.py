"""The names under which an agent's journal stores events, commands and state. A name never changes."""

from themis_agent.agent import commands, events, state
from themis_agent.search import Asha, CurveStopping, Halving, Hyperband, Population, ToTheEnd

TAGS: dict[str, type] = {
    **{f"event/{kind.__name__}": kind for kind in events.Event.__args__},
    **{f"command/{kind.__name__}": kind for kind in commands.Command.__args__},
    "state": state.State,
    "search/asha": Asha,
    "search/hyperband": Hyperband,
    "search/halving": Halving,
    "search/curve_stopping": CurveStopping,
    "search/population": Population,
    "search/to_the_end": ToTheEnd,
}
