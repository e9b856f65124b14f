"""What the toys' arbiter and its worker process find: the standard controllers and the toys."""

from dataclasses import replace

from tests.toys import auction, cells, host
from yarn_plugin.decide.arbiter import STANDARD

KINDS = (auction.KIND, cells.KIND, host.KIND)
TOYS = replace(STANDARD, kinds={**STANDARD.kinds, **{kind.name: kind for kind in KINDS}})
