"""What the toys' arbiter and its worker process find: the standard controllers and the toys."""

from dataclasses import replace

from tests.toys import allocators, auction, cells
from yarn_plugin.decide.arbiter import BUILT_IN

KINDS = (auction.KIND, cells.KIND)
ALLOCATORS = (allocators.IN_TURN, allocators.TABLE)
TOYS = replace(
    BUILT_IN,
    kinds={**BUILT_IN.kinds, **{kind.name: kind for kind in KINDS}},
    allocators={**BUILT_IN.allocators, **{kind.name: kind for kind in ALLOCATORS}},
)
