"""The messages of a round in which GPUs are leased (Themis, thesis sections 3.3.3 and 3.4): estimates, offers, bids."""

from dataclasses import dataclass

from yarn_plugin.model.gpus import Gpus, Job, Machine, Piece


@dataclass(frozen=True, slots=True)
class EstimateRequest:
    """What is your finish-time fairness with what you hold? `contention`: the application's `N_avg`, the time-weighted
    average number of applications during its life (thesis, section 3.4.3.1). `held`: what it holds. `machines`: where
    those GPUs are, with free GPUs or not. `cluster_gpus`: all GPUs of the pool, free or not (`R_C`); 0: unknown.
    `needs_rho`: False if only the jobs matter, as to policies without auctions; then rho may be None."""

    round: int
    contention: float
    held: Gpus = ()
    machines: tuple[Machine, ...] = ()
    cluster_gpus: int = 0
    needs_rho: bool = True


@dataclass(frozen=True, slots=True)
class Estimate:
    """The finish-time fairness rho with what an application holds; None: unbounded, it makes no progress.

    `jobs`: its unfinished jobs, for policies that schedule jobs themselves.
    """

    round: int
    rho: float | None
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """These GPUs are offered until the end of a lease, `lease_s` seconds.

    `machines`: those with free GPUs, and those of the GPUs that the application holds, whose slots may have 0 free.
    `contention`, `held`, `cluster_gpus`: as in `EstimateRequest`. Held GPUs whose slots are in no machine here are
    taken to be alone in a rack.
    """

    round: int
    machines: tuple[Machine, ...]
    lease_s: float
    contention: float
    held: Gpus = ()
    cluster_gpus: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A subset of an offer, and the finish-time fairness rho with it in addition to what is held."""

    pieces: tuple[Piece, ...]
    rho: float


@dataclass(frozen=True, slots=True)
class Bid:
    """A bid table (thesis, table 3.2). `rho`: with nothing of the offer; None: unbounded.

    `cluster_s`: the application's finish time with the whole pool to itself, `T_cluster` in equations 3.1 and 3.2;
    None: not told. With it the table can be read later, when time has passed (`decide.mechanisms.cached_table`).
    """

    round: int
    rho: float | None
    rows: tuple[Row, ...] = ()
    cluster_s: float | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """An application no longer uses these GPUs (ids as in the lease's holdings) of a lease; empty: any of them.

    Says that revoked GPUs are vacated before the grace period ends, or gives GPUs back before the end of their lease.
    """

    lease: str
    gpus: tuple[str, ...] = ()
