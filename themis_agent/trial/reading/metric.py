"""The value of a metric in a line: `loss: 0.5`, `train_loss=0.5`, `'loss': 0.5`, `| loss | 0.5 |`, `Loss 0.5`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from themis_agent.trial.reading.numbers import has_decimal_comma, value_at

_SEPARATOR = r"[\s_/.\-]*"
_SEPARATORS = re.compile(r"[\s_/.\-]+")
_WORD = re.compile(r"[A-Za-z][\w.@/'\-]*")
_JOINED = re.compile(r"(?<![\w.@/'\-])[\w.@/'\-]+$")
_AFTER = (
    r"(?P<suffix>(?:[_/.\-](?:step|epoch|train|training|avg|mean|total|batch|iter))*)"
    r"(?:\s?\((?P<note>[A-Za-z ]{1,20})\))?"
    r"(?=[\s:=\-'\"\]|│┃])['\"\]]?\s*(?:(?:is|of|was)\b\s*)?(?:(?::=|=>|->|[:=|│┃])\s*|(?<=\s))(?=\S)"
)
_NAMED = re.compile(
    r"(?<![\w.@/'\-])([A-Za-z][\w.@/'\-]{0,40}(?: [A-Za-z][\w.@/'\-]{0,40})?)['\"]? ?[:=]\s?['\"]?[-+]?\.?\d"
)
_PART = re.compile(
    r"(?<![\w./'\-])(?:train(?:ing)?|(?P<evaluation>test(?:ing)?|val(?:id(?:ation|ating)?)?|eval(?:uation|uating)?|dev))"
    r"(?:(?: set)?\s?[:\])](?!\s*[-+]?\.?\d)| results?\b)",
    re.IGNORECASE,
)
"""`Test: `, `[eval] `, `Epoch(val) `, `Validation Results `: of what the rest of a line is."""

_NEARBY = 80
"""Characters before a name that may be words of it."""

_MAX_WORDS = 4
_MAX_NAMED = 500
"""Characters of a line in which other names are looked for."""

_BEFORE = 500
"""Characters before a name in which it may say of what a line is."""

_MAX_PLACES = 16
"""In a line, where the metric may be."""

NEUTRAL = frozenset(
    [
        *("train", "training", "avg", "average", "averaged", "mean", "running", "current", "cur", "total", "overall"),
        *("batch", "minibatch", "mini", "step", "steps", "epoch", "epochs", "iter", "iteration", "per", "final"),
        *("smoothed", "with", "and", "the", "a", "an", "got", "has", "had", "new", "this", "at", "model"),
        *("metrics", "metric", "logs", "log", "scalars", "results", "result", "info", "debug", "warning"),
    ]
)
"""Words beside a name that make no other metric of it, unlike `val`, `test`, `best`, `weight`, and any other word."""

_NOT_METRICS = frozenset(["step", "epoch", "iter", "iteration", "batch", "eta", "time", "seed", "rank", "pid", "line"])


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the metric. `label`: under which it stands; `more`: how many more words than the metric's name."""

    value: float
    label: str
    more: int


class Metric:
    """Finds a metric. Words of its name may be written `val_loss`, `val/loss`, `Val Loss`.

    `decimal_comma`: a value such as 0,512 or 1.234,5, after which 1,234 is not certain either; "": none.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.decimal_comma = ""
        words = [word for word in _SEPARATORS.split(name) if word]
        begin = r"(?<![A-Za-z0-9])" if name[:1].isalnum() else ""
        self._pattern = re.compile(f"{begin}{_SEPARATOR.join(map(re.escape, words))}{_AFTER}", re.IGNORECASE)
        self._first_word = words[0].lower()

    def values(self, text: str) -> Iterator[Value]:
        """All values in a line under a name that is certain to be the metric's."""
        if self._first_word not in text.lower():
            return
        for found in islice(self._pattern.finditer(text), _MAX_PLACES):
            before = _before(text[max(found.start() - _NEARBY, 0) : found.start()])
            words = before, _words(f"{found['suffix']} {found['note'] or ''}")
            if not NEUTRAL.issuperset(words[0] + words[1]):
                continue
            value = None if self.decimal_comma else value_at(text, found.end())
            if value is None:
                if has_decimal_comma(text, found.end()):
                    self.decimal_comma = text[found.end() :].split()[0][:20]
                continue
            label = (
                *_evaluation(text[max(found.start() - _BEFORE, 0) : found.start()]),
                *words[0],
                self.name,
                *words[1],
            )
            yield Value(value, "_".join(label), len(label) - 1)

    def is_named(self, text: str) -> bool:
        """Whether a text, such as the head of a column, is a name of the metric."""
        return any(self.values(f"{text}=0"))


def other_names(text: str) -> Iterator[str]:
    """The names of other numbers in a line."""
    for found in _NAMED.finditer(text[:_MAX_NAMED]):
        if not _NOT_METRICS.intersection(_words(found[1])):
            yield found[1][:40]


def _evaluation(text: str) -> list[str]:
    """The evaluation that what follows a text is of, if it is of one."""
    parts = [match["evaluation"] for match in _PART.finditer(text)]
    return [parts[-1].lower()] if parts and parts[-1] else []


def _before(text: str) -> list[str]:
    """The words that end a text, which belong to what follows it."""
    text = text.rpartition("\t")[2]
    joined = _JOINED.search(text)
    words = _words(joined[0]) if joined else []
    for token in reversed(text[: joined.start() if joined else None].split(" ")[-2 * _MAX_WORDS :]):
        if token and not _WORD.fullmatch(token):
            break
        words = [*_words(token), *words]
    return words


def _words(text: str) -> list[str]:
    return [bare.lower() for word in _SEPARATORS.split(text) if (bare := word.strip("'").removesuffix("'s"))]
