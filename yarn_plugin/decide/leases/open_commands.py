"""Questions, offers and problems without an answer, and what is issued again after a restart."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from yarn_plugin.decide.allocators import plan
from yarn_plugin.decide.leases.book import Changes
from yarn_plugin.decide.leases.state import Entry, Question
from yarn_plugin.decide.pools.commands import Ask, Command, Offer
from yarn_plugin.model.auction import Bid, Estimate, EstimateRequest, GpuOffer


def question(id: str, ask: plan.Ask, at: float) -> Question:
    """An open question or offer."""
    command = Offer(id, ask.app, ask.question, ask.by) if ask.is_offer else Ask(id, ask.app, ask.question, ask.by)
    return Question(command, ask.by - at)


def answer_by(asked: Question) -> float:
    """Until when a question waits for its answer."""
    return asked.command.bid_by if isinstance(asked.command, Offer) else asked.command.answer_by


class OpenQuestions:
    """Open questions by application, and by when they are to be answered. Changed in place."""

    def __init__(self, asked: Mapping[str, Question]) -> None:
        self.asked = asked
        self._of: dict[str, list[str]] = {}
        self._due: Counter[float] = Counter()
        for id, one in asked.items():
            self._of.setdefault(one.command.app, []).append(id)
            self._due[answer_by(one)] += 1

    def due(self) -> float | None:
        """When the first one is to be answered; None: there is none."""
        return min(self._due, default=None)

    def has(self, app: str) -> bool:
        """Whether an application is asked something."""
        return app in self._of

    def close(self, app: str) -> Mapping[str, Question]:
        """The questions without those to an application that has just answered."""
        asked = dict(self.asked)
        for id in self._of.pop(app, ()):
            due = answer_by(asked.pop(id))
            self._due[due] -= 1
            if not self._due[due]:
                del self._due[due]
        self.asked = asked
        return asked


def still_open(
    asked: Mapping[str, Question], answered: Iterable[str], apps: Iterable[str], at: float
) -> dict[str, Question]:
    """The questions that wait: not those that were just `answered`, nor to applications that are gone, nor overdue."""
    closed, here = set(answered), set(apps)
    return {
        id: one for id, one in asked.items() if id not in closed and one.command.app in here and at < answer_by(one)
    }


def ask_again(asked: Mapping[str, Question], at: float) -> tuple[dict[str, Question], tuple[Command, ...]]:
    """The open questions after a restart. Whoever is asked has the whole time again: it may not have received the
    question, or could not answer while the arbiter was away."""
    again = {id: replace(one, command=_with_time(one, at)) for id, one in asked.items()}
    return again, tuple(one.command for one in again.values())


def _with_time(asked: Question, at: float) -> Ask | Offer:
    command, by = asked.command, at + asked.wait_s
    return replace(command, bid_by=by) if isinstance(command, Offer) else replace(command, answer_by=by)


def revoke_again(leases: Iterable[Entry], at: float, grace_s: float) -> Changes:
    """The open revocations after a restart, with the whole grace period."""
    changed: dict[str, Entry | None] = {}
    commands: list[Command] = []
    for entry in leases:
        if entry.revoke is not None:
            command = replace(entry.revoke, by=at + grace_s)
            commands.append(command)
            changed[entry.key] = replace(entry, leased=replace(entry.leased, by=command.by), revoke=command)
    return Changes(changed, tuple(commands))


def answered(asked: Mapping[str, Question], app: str, message: object) -> list[str]:
    """The questions that a message of an application answers."""
    return [id for id, one in asked.items() if one.command.app == app and _is_answer(message, one.command)]


def _is_answer(message: object, command: Ask | Offer) -> bool:
    """Those of a round have its number: an application may repeat an estimate, or bid late. Others are not told
    apart."""
    match command.offer if isinstance(command, Offer) else command.question:
        case EstimateRequest(round):
            return isinstance(message, Estimate) and message.round == round
        case GpuOffer(round):
            return isinstance(message, Bid) and message.round == round
    return True
