"""Whether a query is planned: one decision over all that is known of it, asked for in order, the cheapest first."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from qoop.as_written.causes import (
    AsWrittenCause,
    Construct,
    NotOptimised,
    NotRepeatable,
    Off,
    OtherCatalog,
    OtherPath,
    Unrepeatable,
    Unsupported,
)
from qoop.estimate.gate import Gate, Inputs

PlanWhen = Literal["always", "auto", "never"]

SESSION_PATH, BUILTIN_PATH = "system.session", "system.builtin"
"""Where temporary views and functions are on Spark's SQL path, and where Spark's own functions are."""

CATALOG = "spark_catalog"
"""The catalog that stages run in."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the query reads, and what the gate judges it by: see `Gate.cause`. `inputs`: None if unknown."""

    inputs: Inputs | None
    gate: Gate
    slots: float
    took_s: float | None = None
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Names:
    """Where the session looks for names: its current catalog, and its SQL path."""

    catalog: str = CATALOG
    path: str = SESSION_PATH


@dataclass(frozen=True, slots=True)
class NotAsked:
    """A fact that was not asked for yet."""


NOT_ASKED: Final = NotAsked()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a query; each fact is looked up when `how_to_run` asks for it.

    Args:
        when: which queries are planned.
        is_command: Spark has executed the statement as it read it.
        is_optimised: Spark can optimise the query as written.
        reading: what it reads.
        text: why the planner cannot use the text; None if it can.
        earlier: what its earlier runs say against planning it.
        is_deterministic: Spark takes all of its expressions for deterministic.
        names: where the session looks for names.
        files: why its tables cannot be read in one version by several stages.
        plans: why it has no plans.
        pinned: why the listed files could not be kept for the stages.
    """

    when: PlanWhen
    is_command: bool = False
    is_optimised: bool | NotAsked = NOT_ASKED
    reading: Reading | NotAsked = NOT_ASKED
    text: AsWrittenCause | NotAsked | None = NOT_ASKED
    earlier: AsWrittenCause | NotAsked | None = NOT_ASKED
    is_deterministic: bool | NotAsked = NOT_ASKED
    names: Names | NotAsked = NOT_ASKED
    files: AsWrittenCause | NotAsked | None = NOT_ASKED
    plans: AsWrittenCause | NotAsked | None = NOT_ASKED
    pinned: AsWrittenCause | NotAsked | None = NOT_ASKED


Fact = Literal["is_optimised", "reading", "text", "earlier", "is_deterministic", "names", "files", "plans", "pinned"]


def facts_with(facts: Facts, fact: Fact, known: object) -> Facts:
    """The facts with one more."""
    return replace(facts, **{fact: known})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Planned:
    """The query has plans, which are compared with the query as written."""


@dataclass(frozen=True, slots=True)
class AsWritten:
    """The query runs as written."""

    cause: AsWrittenCause


@dataclass(frozen=True, slots=True)
class Ask:
    """It depends on a fact that was not asked for."""

    fact: Fact


HowToRun = Planned | AsWritten


def how_to_run(facts: Facts) -> HowToRun | Ask:
    """Whether a query is planned, or the fact that is needed to tell. Facts that do not matter are not asked for."""
    if facts.is_command:
        return AsWritten(Unsupported(Construct.NOT_SELECT))
    if facts.when == "never":
        return AsWritten(Off())
    checks: tuple[tuple[Fact, bool], ...] = (
        # Spark would refuse the query as written, and perhaps not the parts of it that are planned.
        ("is_optimised", True),
        ("reading", facts.when == "auto"),
        ("text", True),
        ("earlier", facts.when == "auto"),
        ("is_deterministic", True),
        ("names", True),
        ("files", True),
        ("plans", True),
        ("pinned", True),
    )
    for fact, matters in checks:
        if matters:
            known = getattr(facts, fact)
            if known is NOT_ASKED:
                return Ask(fact)
            if (cause := _against(fact, known)) is not None:
                return AsWritten(cause)
    return Planned()


def _against(fact: Fact, known: AsWrittenCause | Reading | Names | bool | None) -> AsWrittenCause | None:
    """Why a fact speaks against planning; None if it does not."""
    match known:
        case Reading(inputs, gate, slots, took_s, characters):
            return None if inputs is None else gate.cause(inputs, slots, took_s, characters)
        case Names(catalog, path):
            return OtherCatalog(catalog) if catalog != CATALOG else _of_path(path.lower())
        case True | None:
            return None
        case False:
            return NotOptimised() if fact == "is_optimised" else NotRepeatable(Unrepeatable.EXPRESSION)
    return known


def _of_path(path: str) -> OtherPath | None:
    """Why names would not mean in the session of the stages what they mean in the user's."""
    before, session, _ = path.partition(SESSION_PATH)
    if not session:
        return OtherPath(path, has_session=False)
    if set(filter(None, before.split(","))) - {BUILTIN_PATH}:
        return OtherPath(path, has_session=True)
    return None
