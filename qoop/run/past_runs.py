"""The earlier runs of queries, on disk: a small file for each query, which any process may lose, spoil or delete."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from qoop.estimate.guard import PastRun
from qoop.plans.plan import PlanShape, StageName
from yarn_plugin.errors import os_reason
from yarn_plugin.files import delete_oldest, write

MAX_RUNS = 50
"""How many runs of a query are kept, cold and others each: more than two of the guard's intervals."""

MAX_COUNTED = 200
"""How many row counts of a query are kept."""

MAX_PLANS = 8
"""How many plans of a query are kept."""

MAX_GIVEN_UP = 100
"""How many plans that were given up are kept of a query."""

MAX_QUERIES = 1000
"""How many queries are kept; beyond that, those that ran longest ago are forgotten."""

MAX_BYTES = 128 * 1024
"""No file of ours is larger."""

Measurable = Annotated[float, Field(ge=1e-6, le=1e12, allow_inf_nan=False)]
"""Seconds or slots; no run has others, and their products could be 0 or overflow."""

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rows = Annotated[float, Field(ge=0, le=2.0**63, allow_inf_nan=False)]


Signature = Annotated[str, Field(max_length=32)]


class _Run(BaseModel):
    model_config = ConfigDict(frozen=True)
    planned: bool
    seconds: Measurable
    slots: Measurable
    core_seconds: NotNegative
    cold: bool
    kept: bool = False
    plan: Signature = ""
    switched: bool = False
    expected: NotNegative = 0.0


class _File(BaseModel):
    """`data`: identifies what the query read; runs on other data say nothing. `counted`: block, aliases, rows."""

    model_config = ConfigDict(frozen=True)
    version: Literal[1] = 1
    data: str
    runs: list[_Run]
    counted: Annotated[list[tuple[str, tuple[str, ...], Rows]], Field(max_length=MAX_COUNTED)] = []
    plans: Annotated[dict[str, PlanShape], Field(max_length=MAX_PLANS)] = {}
    given_up: Annotated[list[Signature], Field(max_length=MAX_GIVEN_UP)] = []


@dataclass(frozen=True, slots=True)
class Past:
    """The runs of one query on the same data, oldest first, and how many rows each stage had that they stored.

    `plans`: those that runs began with, by their signatures. `given_up`: the signatures of plans that failed,
    stored too much, or could not be shown to compute the query.
    """

    runs: tuple[PastRun, ...] = ()
    counted: Mapping[StageName, float] = field(default_factory=dict)
    plans: Mapping[str, PlanShape] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()


class PastRuns:
    """The record of the runs of one query on the same data.

    No query depends on them: what cannot be read is ignored with a line to `warn`, what cannot be written is not kept.

    Args:
        query: identifies the query, with the settings that it runs under.
        data: identifies the data that it reads.
    """

    def __init__(self, query: str, data: str, warn: Callable[[str], None] = lambda line: None) -> None:
        self._folder = Path(platformdirs.user_cache_dir("qoop")) / "runs-1"
        self._path = self._folder / f"{query}.json"
        self._data, self._warn = data, warn

    def read(self) -> Past:
        """What is known of them."""
        try:
            with self._path.open("rb") as file:
                known = _File.model_validate_json(file.read(MAX_BYTES + 1))
        except FileNotFoundError:
            return Past()
        except OSError as problem:
            self._warn(f"earlier runs of the query are not known: {str(self._path)!r}: {os_reason(problem)}")
            return Past()
        except ValidationError:
            self._warn(f"earlier runs of the query are not known: {str(self._path)!r} is not such a record")
            return Past()
        if known.data != self._data:
            return Past()
        return Past(
            # A plan whose shape is no longer known cannot be run again.
            tuple(PastRun(**{**dict(run), "plan": run.plan if run.plan in known.plans else ""}) for run in known.runs),
            {StageName(block, aliases): rows for block, aliases, rows in known.counted},
            known.plans,
            frozenset(known.given_up),
        )

    def add(
        self,
        runs: Iterable[PastRun],
        counted: Mapping[StageName, float],
        plans: Mapping[str, PlanShape] = MappingProxyType({}),
        given_up: Set[str] = frozenset(),
    ) -> None:
        """Add what the latest run has shown. If two processes add at once, what one adds may be lost."""
        known = self.read()
        every = [*known.runs, *runs]
        kept = {id(run) for cold in (True, False) for run in [one for one in every if one.cold == cold][-MAX_RUNS:]}
        earlier = [(name, rows) for name, rows in known.counted.items() if name not in counted]
        latest = [*earlier, *counted.items()][-MAX_COUNTED:]
        latest_runs = [run for run in every if id(run) in kept]
        try:
            file = _File(
                data=self._data,
                runs=[_run(run) for run in latest_runs],
                counted=[(name.block, name.aliases, rows) for name, rows in latest],
                plans=_still_named({**known.plans, **plans}, latest_runs),
                given_up=sorted([*given_up, *(known.given_up - given_up)][:MAX_GIVEN_UP]),
            )
        except ValidationError:
            # A run of no measurable time.
            return
        # Aliases may be of any length: then what is needed least is left out.
        least_needed: tuple[set[str], ...] = (set(), {"plans"}, {"plans", "counted"})
        for left_out in least_needed:
            content = file.model_dump_json(exclude=left_out)
            if len(content.encode()) <= MAX_BYTES:
                break
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write(self._path, content)
            delete_oldest(self._folder, MAX_QUERIES)


def _still_named(plans: Mapping[str, PlanShape], runs: Sequence[PastRun]) -> dict[str, PlanShape]:
    """The plans that runs began with; of many the latest."""
    named = list(dict.fromkeys(run.plan for run in reversed(runs) if run.plan in plans))[:MAX_PLANS]
    return {signature: plans[signature] for signature in named}


def _run(run: PastRun) -> _Run:
    return _Run(**{name: getattr(run, name) for name in _Run.model_fields})
