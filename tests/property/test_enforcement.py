"""The arbiter's step over random histories: invariants of its state, and shares that no application loses early."""

import json
from collections import Counter

from hypothesis import given

from tests.arbiter_world import SQL, STATIC, World, histories
from yarn_plugin.api.causes import text
from yarn_plugin.decide import commands, events
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import SetTimer, SignalContainers, WriteWeights
from yarn_plugin.decide.enforcement import weight_deadlines
from yarn_plugin.decide.membership import snapshot
from yarn_plugin.decide.pools.share import MIN_WEIGHT, binding_fraction
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.resources import Resources

CODEC = Codec(journal_tags(BUILT_IN))
CLOSE = 0.002
"""YARN's weights are rounded to hundredths of a percent, and a new leaf has one before it is given any."""


def play(history, **watching):
    world = World(**watching)
    for action in history:
        world.do(action)
    return world


def validate(world):
    """What holds of the state after every event."""
    state, now = world.state, world.now
    for app, member in state.members.items():
        assert app == member.app
        assert app in state.registered or app in state.cluster.apps, f"{app} is nobody"
        times = [one.at for one in member.schedule]
        assert times == sorted(times)
        assert times[0] <= now, "something always binds"
        drift = abs(member.schedule[-1].fraction - member.share.grant.entitlement_fraction)
        assert drift <= 0.001 or not member.share.capacity, "the last step is the share"
        to_come = [one.fraction for one in member.schedule if one.at > now]
        assert to_come == sorted(to_come, reverse=True), "shares only shrink later; they grow at once"
        assert member.share.seq <= world.seq
        assert text(member.share.cause)
        assert not to_come or member.share.effective_at == member.schedule[-1].at, "it binds when it was told to"
        assert member.over_since is None or member.over_since <= now
    assert set(state.yarn_apps) <= set(state.registered)
    assert set(state.jobs) <= set(state.registered)
    assert set(state.yarn_apps.values()) <= set(state.cluster.apps)
    assert max(Counter(state.yarn_apps.values()).values(), default=1) == 1, "two are one application of YARN"
    assert set(state.quiet_since) <= set(state.cluster.apps)
    assert len({known.queue for known in state.registered.values()}) == len(state.registered)
    for pool in state.pools:
        seen = snapshot(state, pool, now)
        counted = [state.members[claim.app] for claim in seen.claims]
        together = {one.app: [app for app, _ in one.together] for one in seen.claims if one.together}
        assert {app for claim in seen.claims for app in together.get(claim.app, (claim.app,))} == set(state.members)
        for first, others in together.items():
            assert {state.members[app].share.grant for app in others} == {state.members[first].share.grant}
        assert sum((one.share.grant.guarantee for one in counted), Resources()).fits(seen.capacity)
        assert sum((one.share.grant.entitlement for one in counted), Resources()).fits(seen.capacity)
        assert all(one.share.apps == len(counted) and one.share.capacity == seen.capacity for one in counted)
    timers = [at for kept in state.pool_states.values() for at in kept.timers.values()]
    due = [at for at in (*weight_deadlines(state), *timers) if at > now]
    assert all(at > now for at in timers), "a timer that is due was not taken"
    assert not due or (state.timer is not None and state.timer <= min(due)), "it sleeps past a deadline"
    assert state.timer == world.due
    assert not state.enforcement.asked or world.outstanding, "it waits for an answer that nobody owes"
    assert not state.enforcement.reading or world.reads, "it waits for an answer that nobody owes"
    assert len(world.outstanding) + len(world.reads) <= 1, "one request at a time"


@given(histories)
def test_the_state_is_sound_after_every_event(history):
    play(history, stepped=validate)


def nobody_sinks(world, before, promised):
    """A write leaves everybody the smaller of what it had and what it is promised: until a grace is over, all it had.

    YARN's weights are relative, so all that is compared is normalized over the queues in which something runs.
    """
    queues = {app.queue for app in world.running.values() if app.queue.startswith("root.sql.")}
    total = {"before": sum(before[queue] for queue in queues), "after": sum(world.weights[queue] for queue in queues)}
    for queue in queues & set(promised):
        had, has = before[queue] / total["before"], world.weights[queue] / total["after"]
        assert has >= min(had, promised[queue]) - CLOSE * len(queues), f"{queue} sank from {had} to {has}"


@given(histories)
def test_no_write_takes_from_an_application_before_its_grace_period_ends(history):
    play(history, applied=nobody_sinks)


@given(histories)
def test_weights_are_within_what_yarn_takes_and_are_asked_only_where_they_can_be_written(history):
    world = play(history)
    reached = True
    for _, _, event, decided in world.trace:
        reached = isinstance(event, events.ManagerReached) or (reached and not isinstance(event, events.ManagerLost))
        for command in decided:
            if isinstance(command, WriteWeights):
                assert reached
                assert command.weights or command.forget
                assert not {queue for queue, _ in command.weights}.union(command.forget) & set(STATIC)
                assert all(MIN_WEIGHT <= weight <= 10_000 for _, weight in command.weights)
                assert not {queue for queue, _ in command.weights} & set(command.forget)


@given(histories)
def test_once_all_graces_are_over_and_yarn_obeys_weights_are_the_shares(history):
    world = play([*history, ("reach_manager",)])
    for _ in range(4):
        for _ in range(3):
            world.do(("read",))
            world.do(("write",))
        assert not world.outstanding, "writes go on and on"
        world.do(("wait", 200.0))
    state = world.state
    total = sum(binding_fraction(member, world.now) for member in state.members.values())
    for app, member in state.members.items():
        running = state.cluster.apps.get(state.yarn_apps.get(app, app))
        assert len(member.schedule) == 1 or member.schedule[-1].at <= world.now
        if running and running.queue not in ("root.sql.shared", "root.default", *STATIC) and total <= 1 + 1e-9:
            wanted = max(round(100 * member.share.grant.entitlement_fraction, 2), MIN_WEIGHT)
            assert abs(world.weights[running.queue] - wanted) <= 0.02


@given(histories)
def test_a_master_is_never_signalled(history):
    for _, _, _, decided in play(history).trace:
        for command in decided:
            if isinstance(command, SignalContainers):
                assert "container_000001" not in command.containers


@given(histories)
def test_the_same_events_give_the_same_commands_byte_for_byte(history):
    assert written(play(history)) == written(play(history))


def written(world):
    """The trace as the journal writes it."""
    records = [
        {"seq": seq, "at": at, "event": CODEC.write(event), "commands": [CODEC.write(one) for one in decided]}
        for seq, at, event, decided in world.trace
    ]
    return json.dumps(records, separators=(",", ":")).encode()


@given(histories)
def test_the_state_survives_being_written_and_read_back(history):
    state = play(history).state
    assert CODEC.read(json.loads(json.dumps(CODEC.write(state)))) == state


@given(histories)
def test_shares_are_sent_only_when_they_change(history):
    told, seen = {}, {}

    def remember(world):
        for command in world.trace[-1][3]:
            if isinstance(command, commands.TellShare):
                key = (command.share.grant.guarantee, command.share.grant.entitlement, command.share.capacity)
                assert told.get(command.app) != key, f"{command.app} is told what it knows"
                told[command.app] = key
            elif isinstance(command, commands.Dismiss):
                told.pop(command.app, None)
        for app in [app for app in told if app not in world.state.members]:
            del told[app]
        for app, member in world.state.members.items():
            grant = member.share.grant
            assert told[app] == (grant.guarantee, grant.entitlement, member.share.capacity)
        seen["timers"] = [one for one in world.trace[-1][3] if isinstance(one, SetTimer)]
        assert len(seen["timers"]) <= 1

    play(history, stepped=remember)


def test_the_pool_of_the_world_is_the_usual_one():
    assert (SQL.grace, SQL.preempt_after) == (10.0, 15.0)
