"""The simulated YARN under any sequence of requests and losses: never beyond a node, and work-conserving."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from yarn_plugin.model.cluster import Node
from yarn_plugin.model.resources import Resources
from yarn_plugin.simulation.yarn import MASTER, RunningApp, SimulatedYarn, container_prefix

NODES = [
    Node(f"n{number}:1", "/r", Resources.of({"memory-mb": memory, "vcores": cores}))
    for number, (memory, cores) in enumerate(((8192, 8), (8192, 8), (4096, 16), (16384, 4)))
]
SIZES = ((1024, 1), (2048, 1), (1024, 4), (4096, 2))
small = st.integers(0, 7)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), small, small),
        st.tuples(st.just("hold"), small, st.sampled_from((0, 1, 3, 9, 40))),
        st.tuples(st.just("end"), small, small),
        st.tuples(st.just("kill"), small, small),
        st.tuples(st.just("lose"), small, small),
        st.tuples(st.just("back"), small, small),
        st.tuples(st.just("weigh"), small, st.sampled_from((1, 5, 60))),
        st.tuples(st.just("allocate"), small, small),
    ),
    max_size=40,
)


def do(yarn, count, word, number, other):
    names = sorted(yarn.apps)
    name = names[number % len(names)] if names else None
    node = NODES[number % len(NODES)].id
    match word:
        case "submit":
            size, master = SIZES[number % len(SIZES)], SIZES[0]
            yarn.submit(RunningApp(f"application_1_{count:04}", "x", "u", f"root.q{other}", 0.0, size, master))
        case "hold" if name:
            yarn.set_containers(name, other)
        case "end" if name:
            yarn.end(name)
        case "kill" if name:
            yarn.kill(name, [f"{container_prefix(name)}{one:06d}" for one in range(MASTER + 1, MASTER + 2 + other)])
        case "lose" if node in yarn.present:
            yarn.lose_node(node)
        case "back" if node not in yarn.present:
            yarn.add_node(node)
        case "weigh":
            yarn.write([(f"root.q{number}", float(other))], [])
        case "allocate":
            yarn.allocate()


def check(yarn):
    """The plain sum over all containers."""
    held = defaultdict(lambda: [0, 0])
    for app in yarn.apps.values():
        assert app.held <= max(app.wanted, 0)
        for number, node in app.containers.items():
            assert node in yarn.present
            for place, amount in enumerate(app.master if number == MASTER else app.size):
                held[node][place] += amount
    for node in yarn.nodes.values():
        assert all(used <= has for used, has in zip(held[node.id], yarn.amounts(node.capacity), strict=True))
    used = [sum(one) for one in zip(*held.values(), strict=True)] or [0, 0]
    assert yarn.used() == yarn.resources(used)
    return {node: [a - b for a, b in zip(yarn.amounts(yarn.nodes[node].capacity), held[node], strict=True)]
            for node in yarn.present}  # fmt: skip


@given(actions)
def test_no_node_ever_holds_more_than_it_has(history):
    yarn = SimulatedYarn(NODES)
    for count, action in enumerate(history):
        do(yarn, count, *action)
        check(yarn)


@given(actions)
def test_requests_are_allocated_while_a_node_has_room(history):
    yarn = SimulatedYarn(NODES)
    for count, action in enumerate(history):
        do(yarn, count, *action)
    yarn.allocate()
    free = check(yarn)
    for app in yarn.apps.values():
        size = app.next_size()
        assert size is None or not any(all(a <= b for a, b in zip(size, has, strict=True)) for has in free.values())


def apps_of(*weights):
    """Applications that want everything, in queues of these weights."""
    yarn = SimulatedYarn([Node("n:1", "/r", Resources.of({"memory-mb": 65536, "vcores": 64}))])
    for number, weight in enumerate(weights):
        app = RunningApp(f"application_1_{number:04}", "x", "u", f"root.q{number}", 0.0, (512, 1), (512, 1))
        yarn.submit(app)
        yarn.write([(app.queue, weight)], [])
        yarn.set_containers(app.id, 100)
    yarn.allocate()
    return yarn


def test_queues_get_containers_by_their_weights():
    assert [len(app.containers) for app in apps_of(10.0, 30.0).apps.values()] == [16, 48]


def test_what_one_does_not_want_goes_to_the_others():
    yarn = apps_of(10.0, 30.0)
    yarn.set_containers("application_1_0001", 3)
    yarn.allocate()
    assert [len(app.containers) for app in yarn.apps.values()] == [60, 4]


def test_within_a_queue_the_first_is_served_first():
    yarn = SimulatedYarn(NODES[:1])
    for number in range(2):
        yarn.submit(RunningApp(f"application_1_{number}", "x", "u", "root.q", 0.0, (1024, 1), (1024, 1)))
        yarn.set_containers(f"application_1_{number}", 20)
    yarn.allocate()
    assert [len(app.containers) for app in yarn.apps.values()] == [8, 0]


def test_an_attempt_that_loses_its_master_loses_everything():
    yarn = SimulatedYarn(NODES[:2])
    yarn.submit(RunningApp("application_1_1", "x", "u", "root.q", 0.0, (1024, 1), (1024, 1)))
    yarn.set_containers("application_1_1", 12)
    yarn.allocate()
    (master,) = [one.node for one in yarn.containers("application_1_1") if one.master]
    assert yarn.lose_node(master) == {"application_1_1": 13}
    assert yarn.apps["application_1_1"].is_waiting
    assert not yarn.used()


def test_weights_that_are_lost_count_no_more():
    yarn = apps_of(10.0, 30.0)
    yarn.lose_weights()
    for app in yarn.apps.values():
        yarn.set_containers(app.id, 0)
        yarn.set_containers(app.id, 100)
    yarn.allocate()
    assert [len(app.containers) for app in yarn.apps.values()] == [32, 32]
