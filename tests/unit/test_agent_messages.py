"""An application reads what the arbiter sends about leases, and the arbiter what the application answers."""

import json

from tests.lease_world import World, node, row
from themis_agent.agent import messages
from yarn_plugin.api import translate, wire
from yarn_plugin.api.bodies import Messages
from yarn_plugin.decide.arbiter import BUILT_IN
from yarn_plugin.decide.commands import SendToApp
from yarn_plugin.drive.registry import journal_tags
from yarn_plugin.journal.codec import Codec
from yarn_plugin.model.auction import Bid, Estimate, Release
from yarn_plugin.model.gpus import Job

WALL_OFFSET = 1000.0


def test_every_message_of_a_lease_is_read_as_it_was_sent():
    world = World.of(node("n1", 2), f=0.0, payments=False)
    ann = world.arrive("ann", rho=4.0, rows=(row(2.0, 2),))
    world.wait(20)
    world.run(ann, n1=[1, 1])
    eve = world.arrive("eve", rho=9.0, rows=(row(3.0, 2),))
    world.wait(590)
    world.run(ann)
    world.wait(650)
    world.agents[eve].rows = (row(1.0, 2),)
    world.wait(650)
    codec, heard = Codec(journal_tags(BUILT_IN)), []
    for command in (command for one in world.stage.decided for command in one.commands):
        if isinstance(command, SendToApp):
            name, data = translate.message(command, WALL_OFFSET, codec)
            heard.append((command.message, messages.read(name, json.loads(data))))
    assert {type(read) for _, read in heard} == set(messages._KINDS.values()) - {messages.Leases}
    for sent, read in heard:
        assert type(sent).__name__ == type(read).__name__
        match read:
            case messages.Ask():
                assert (read.question, read.answer_by) == (sent.question, sent.answer_by + WALL_OFFSET)
            case messages.Offer():
                assert (read.offer, read.bid_by) == (sent.offer, sent.bid_by + WALL_OFFSET)
            case messages.Grant():
                of_lease = [(one.id, tuple(part.cell for part in one.holdings)) for one in sent.leases]
                assert [(one.id, one.cells) for one in read.leases] == of_lease
                places = [part.place for one in sent.leases for part in one.holdings]
                assert [part.place for one in read.leases for part in one.holdings] == places
                assert None not in places
            case messages.Revoke() | messages.LeaseEnded():
                assert (read.lease, read.cells) == (sent.lease, sent.cells)


def test_every_answer_is_read_as_it_was_meant():
    pool = World.of().stage.intake.state.pools[-1]
    job = Job("a", 10.0, 0.5, max_gpus=4, losses=((1.0, 0.5),), held=(("n1", 2),))
    bid = Bid(3, 2.5, (row(1.5, 2, 1, within="n1"),), 80.0)
    answers = (Estimate(3, None, (job,)), bid, Release("gpu#7", ("n1/0",)))
    for answer in answers:
        kind, fields = messages.write(answer)
        assert Messages(BUILT_IN).parse(pool, wire.Message.model_validate({"type": kind, **fields})) == answer


def test_a_message_of_another_kind_is_nothing_to_read():
    assert messages.read("hold", {"id": "gpu#1", "cause": {}}) is None
