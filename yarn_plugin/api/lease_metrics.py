"""Metrics for Prometheus of pools whose GPUs are leased: rounds, and who is how far from a fair finish time."""

import math
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from yarn_plugin.api.lease_rounds import lease_rounds
from yarn_plugin.api.leases import leased_gpus
from yarn_plugin.decide.pools.lease.state import LeaseState
from yarn_plugin.decide.pools.ledger import LedgerState
from yarn_plugin.decide.state import State
from yarn_plugin.model.causes import LeaseRound


def lease_metrics(state: State, now: float) -> Iterator[Metric]:
    """The metrics of all pools of leased GPUs at `now`, the arbiter's time; none without such a pool."""
    states = {name: kept.state for name, kept in sorted(state.pool_states.items())}
    leased = {name: _leased(pool) for name, pool in states.items() if isinstance(pool, LeaseState | LedgerState)}
    if not leased:
        return
    yield _gauge("gpus", "GPUs of usable machines", {name: leased_gpus(states[name]) or 0 for name in leased})
    yield _gauge("leased_gpus", "GPUs that are leased", {name: gpus for name, (gpus, _) in leased.items()})
    yield _gauge("count", "Leases", {name: count for name, (_, count) in leased.items()})
    pools = {where: found for name, pool in states.items() for where, found in lease_rounds(name, pool)}
    if not pools:
        return
    rounds = CounterMetricFamily("yarn_arbiter_lease_rounds", "Rounds since the journal was created", labels=["pool"])
    for name, pool in pools.items():
        rounds.add_metric([name], pool.round_number)
    yield rounds
    yield _gauge(
        "round_seconds",
        "How long the round in progress has lasted; 0 if there is none",
        {name: now - pool.round.opened_at if pool.round else 0.0 for name, pool in pools.items()},
    )
    yield from _of_last_rounds({name: pool.last for name, pool in pools.items() if pool.last is not None})


def _of_last_rounds(rounds: Mapping[str, LeaseRound]) -> Iterator[Metric]:
    yield _gauge(
        "max_rho",
        "The largest finish-time fairness (rho) of an application in the last round; +Inf if it is unbounded",
        {name: _max_rho(last) for name, last in rounds.items() if last.rhos},
    )
    yield _gauge(
        "gap",
        "How far the last auction's product of valuations may be from the optimum, in nats",
        {name: last.gap for name, last in rounds.items() if last.gap is not None},
    )
    yield _gauge(
        "bids_set_aside",
        "Bids that the last round was decided without, since the auction failed on them",
        {name: len(last.set_aside) for name, last in rounds.items()},
    )
    yield _gauge(
        "discounted",
        "Applications whose bids are discounted, since their finish-time fairness is worse than promised",
        {name: len(last.discounted) for name, last in rounds.items()},
    )
    gpus = GaugeMetricFamily(
        "yarn_arbiter_lease_round_gpus",
        "GPUs of the last round by what became of them (paid: withheld from winners as hidden payment)",
        labels=["pool", "what"],
    )
    for name, last in rounds.items():
        for what, amounts in (
            ("won", last.won), ("paid", last.paid), ("leftover", last.leftover), ("idle", last.idle),
        ):  # fmt: skip
            gpus.add_metric([name, what], sum(count for _, count in amounts))
    yield gpus


def _leased(pool: LeaseState | LedgerState) -> tuple[int, int]:
    """How many GPUs are leased, and how many leases there are."""
    if isinstance(pool, LeaseState):
        return sum(len(held.gpus) for held in pool.leases.values()), len(pool.leases)
    return sum(len(entry.gpus) for entry in pool.ledger.leases.values()), len(pool.ledger.leases)


def _max_rho(last: LeaseRound) -> float:
    return max(math.inf if rho is None else rho for _, rho in last.rhos)


def _gauge(name: str, text: str, values: Mapping[str, float]) -> Metric:
    """A gauge with one value for each pool."""
    gauge = GaugeMetricFamily(f"yarn_arbiter_lease_{name}", text, labels=["pool"])
    for pool, value in values.items():
        gauge.add_metric([pool], value)
    return gauge
