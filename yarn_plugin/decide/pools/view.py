"""What a controller sees of its pool: a plain value, that a test or a hosting controller can make as well."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

from yarn_plugin.model.causes import Causes
from yarn_plugin.model.cluster import Use
from yarn_plugin.model.resources import Resources
from yarn_plugin.model.share import Claim
from yarn_plugin.model.topology import Topology

NOTHING_HAPPENED = Causes(())


@dataclass(frozen=True, slots=True)
class View:
    """A pool at one moment.

    `seq` and `causes`: the number of the input that is being decided on, and what happened with it; neither makes a
    view differ. `at` is `advance`'s. `capacity`: what is divided. `topology`: where it lies, and what of it is broken.
    `claims`: who counts, in the order of arrival. `use`: what each application holds on each node, for pools that lease
    cells. `waiting`: two of the YARN applications in the pool that wait for containers, if so many do. `weights`: what
    YARN is known to have for the leaf queues of the pool. `static`: the queues that YARN's configuration defines, which
    are never written; None until they have been seen. `steering`: this arbiter may act on YARN now.
    """

    seq: int = 0
    causes: Causes = NOTHING_HAPPENED
    capacity: Resources = field(default_factory=Resources)
    topology: Topology = field(default_factory=Topology)
    claims: tuple[Claim, ...] = ()
    use: tuple[Use, ...] = ()
    waiting: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    static: tuple[str, ...] | None = None
    steering: bool = False

    def only(self, parts: frozenset[str]) -> "View":
        """The view with these parts alone."""
        return replace(self, **{name: _EMPTY[name] for name in _left_out(parts)})

    def timeless(self) -> "View":
        """The view without its input: what is compared with another."""
        return replace(self, seq=0, causes=NOTHING_HAPPENED)


PARTS = frozenset(one.name for one in fields(View)) - {"seq", "causes"}
"""What a controller can declare to read."""

_EMPTY = {one.name: getattr(View(), one.name) for one in fields(View)}


@lru_cache
def _left_out(parts: frozenset[str]) -> tuple[str, ...]:
    return tuple(PARTS - parts)
