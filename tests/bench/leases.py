"""What one event costs a pool of 65,536 leased GPUs with 6,000 leases, in processor time of the arbiter's pure step.

An event that changes nothing; `drop`: an application gives a lease back; `place`: the lease that a round gives it
instead (the policy is trivial, and its own time is not counted); a node is lost, and returns.
"""

from dataclasses import replace
from itertools import product
from typing import Any

from tests.bench.arbiter_steps import Arbiter, Untimed, beginning, known_state, percentiles, ready, registered, running
from yarn_plugin.decide.allocators.auction import on_ledger
from yarn_plugin.decide.commands import SendToApp, SolveInWorker
from yarn_plugin.decide.events import AppSaid, Configured, Looked, NodesChanged, Solved, TimerFired
from yarn_plugin.decide.leases.settings import RULES
from yarn_plugin.decide.mechanisms.partial_allocation import Gang
from yarn_plugin.decide.policies.leasing import Assignment
from yarn_plugin.decide.pools.commands import Ask, Grant
from yarn_plugin.decide.pools.lease.baselines import Assignments, PolicyProblem
from yarn_plugin.decide.pools.lease.settings import LeaseSettings
from yarn_plugin.decide.pools.lease.state import Held
from yarn_plugin.model.auction import Estimate, Release
from yarn_plugin.model.cluster import Node
from yarn_plugin.model.gpus import Job
from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Holding, Lease, Pool
from yarn_plugin.model.topology import CellDescription, NodeDescription, TopologyDescription

NODES, GPUS_PER_NODE, NODES_PER_RACK = 8192, 8, 64
APPS, LEASES_PER_APP, LAPS = 1500, 4, 12
SOCKET = Resources.of({GPU: GPUS_PER_NODE // 2})
DESCRIBED = TopologyDescription(
    ("rack", "node", "socket"),
    (NodeDescription(("*",), (), (CellDescription("s0", SOCKET), CellDescription("s1", SOCKET))),),
)
ROUNDS = LeaseSettings("tiresias", lease_s=1e7, grid_s=0.0, round_window_s=0.0, rules=RULES)
EARLIER = Pool("gpu", "root.gpu", (GPU,), controller="lease", parameters=ROUNDS)
"""The pool as an earlier version knew it; its leases go over to the ledger."""
POOL = replace(EARLIER, controller="ledger", parameters=on_ledger(ROUNDS))

JOBS = tuple(Job(f"job{number}", 1e9, 1.0, 0.0, 8, 8, 8) for number in range(LEASES_PER_APP))


def measure() -> dict[str, Any]:
    """Milliseconds of processor time: percentiles by event."""
    arbiter = _leasing()
    spent: dict[str, list[float]] = {name: [] for name in ("nothing", "drop", "place", "lost", "back")}
    with Untimed():
        for lap in range(LAPS):
            spent["nothing"].append(arbiter.take(Looked())[0])
            drop, place = _move(arbiter, f"app_{_app_number(100 * lap)}")
            spent["drop"].append(drop)
            spent["place"].append(place)
            node = _node(APPS * LEASES_PER_APP + lap)
            spent["lost"].append(arbiter.take(NodesChanged((), (node.id,), (node,)))[0])
            spent["back"].append(arbiter.take(NodesChanged((node,), ()))[0])
    return {key: value for name, times in spent.items() for key, value in percentiles(f"{name}_ms", times).items()}


def _move(arbiter: Arbiter, app: str) -> tuple[float, float]:
    """An application gives a lease back and gets another one: the milliseconds of both."""
    leases = arbiter.state.pool_states[POOL.name].state.ledger.leases
    held = next(entry for entry in leases.values() if entry.app == app)
    drop, commands = arbiter.take(AppSaid(app, Release(held.id)))
    asked: list[SendToApp] = []
    while not asked:
        asked = [one for one in commands if isinstance(one, SendToApp) and isinstance(one.message, Ask)]
        if not asked:
            commands = arbiter.take(TimerFired(), arbiter.until_due())[1]
    for one in asked:
        _, commands = arbiter.take(AppSaid(one.app, Estimate(one.message.question.round, None, JOBS)))
    problem = next(command for command in commands if isinstance(command, SolveInWorker))
    assert isinstance(problem.problem, PolicyProblem)
    machine = next(one for one in reversed(problem.problem.problem.machines) if one.gpus == GPUS_PER_NODE)
    assignment = Assignment(app, "job0", tuple((slot.id, slot.gpus) for slot in machine.slots))
    result = Assignments(problem.problem.problem.round, (assignment,))
    arbiter.take(Solved(POOL.name, problem.id, "done", result))
    place, commands = arbiter.take(TimerFired(), arbiter.until_due())
    assert any(isinstance(one, SendToApp) and isinstance(one.message, Grant) for one in commands)
    return drop, place


def _node(number: int) -> Node:
    amounts = Resources.of({MEMORY: 1 << 20, VCORES: 128, GPU: GPUS_PER_NODE})
    return Node(f"n{number:04}:8041", f"/r{number // NODES_PER_RACK:03}", amounts)


def _app_number(number: int) -> int:
    """The number of the event that registered an application."""
    return 5 + number


def _leasing() -> Arbiter:
    nodes = [_node(number) for number in range(NODES)]
    apps = [running(number, f"{POOL.queue}.q{number}", 1) for number in range(APPS)]
    configured = Configured((EARLIER,), topology=DESCRIBED)
    events = [configured, *beginning(nodes), *registered(POOL, apps, demands=False), *ready()]
    arbiter = Arbiter(known_state(events))
    arbiter.take(configured)
    kept = arbiter.state.pool_states[POOL.name]
    leases = {}
    gang = (Gang(8, 8, 8, LEASES_PER_APP),)
    members = {app: replace(member, gangs=gang, estimated_in=1) for app, member in kept.state.members.items()}
    assert len(members) == APPS and f"app_{_app_number(0)}" in members
    for place, (app, job) in enumerate(product(members, range(LEASES_PER_APP))):
        name = f"gpu#{10 + place}"
        cells = [f"n{place:04}/s{socket}/{gpu}" for socket in (0, 1) for gpu in range(GPUS_PER_NODE // 2)]
        lease = Lease(name, app, f"job{job}", 0, tuple(Holding(cell, GPU) for cell in cells), until=1e8)
        leases[name] = Held(lease, 1, "policy", 1.0, started_at=1.0, is_placed=True)
    state = replace(kept.state, members=members, leases=leases, counter=10 + len(leases), triggers=(), open_at=None)
    state = replace(state, round=None, open={})
    kept = replace(kept, state=state, timers={})
    arbiter.state = replace(arbiter.state, pool_states={POOL.name: kept})
    arbiter.take(Configured((POOL,), topology=DESCRIBED))
    for _ in range(3):
        arbiter.take(Looked(), 1.0)
    assert len(arbiter.state.pool_states[POOL.name].state.ledger.leases) == APPS * LEASES_PER_APP
    return arbiter
