"""What steps derive and use again: the controllers of the pools, and their views.

Owned by the driver of one arbiter and passed to each of its steps. Decisions do not depend on it: with a new one for
every step they are the same, and take longer.
"""

from yarn_plugin.decide.pools.controller import Controllers, Registry
from yarn_plugin.decide.views import Views


class StepCache:
    """See the module. `registry`: the available controllers and policies.

    `unlisted`, `unwritten`: the values from which it followed that no containers had to be listed, and no weights
    written.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.controllers = Controllers(registry)
        self.views = Views()
        self.unlisted: tuple[object, ...] = ()
        self.unwritten: tuple[object, ...] = ()
