"""Where in its training a line is: Keras, TensorFlow, PyTorch's examples, Lightning, tqdm, XGBoost, CatBoost."""

import re
from dataclasses import dataclass
from itertools import islice

from themis_agent.trial.reading.numbers import parsed, whole

_N = r"(\d+(?:[,_]\d{3})*)"
_END = r"(?![,_]?\d|[\w.]*\w)"
_OF = rf"(?:\s{{0,12}}(?:/|\bof\b)\s{{0,12}}{_N})?{_END}"
_OTHER = re.compile(r"\b(?:total|max|warmup|best|last|per|every|num|of) $", re.IGNORECASE)
"""Before a step or an epoch that is not where the line is."""

_EPOCH = re.compile(
    r"\bepoch\b['\"]?\s?[:=#]?\s{0,12}[\[(]?\s{0,12}(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?!,?\d)(?:\s?/\s?-?\d+)?",
    re.IGNORECASE,
)
_STEP_WORDS = tuple(
    (words, re.compile(rf"\b(?:{'|'.join(words)})\b['\"]?\s?[:=#]?\s{{0,12}}[\[(]?\s{{0,12}}{_N}{_OF}", re.IGNORECASE))
    for words in (("global_step", "global step"), ("step", "iter", "iteration"), ("batch", "round", "update"))
)
_TQDM = re.compile(r"(?:\||%|:|^)\s*(\d+)/(\d+) \[\d*:?\d\d:\d\d")
_BEGUN_LINE = re.compile(r"[^\[]*?(?<!\d)\d{1,12}/\d{1,12} \[[\d:?]+<[^\]]*\]\s*(?=[A-Za-z\d{\[|])")
_ENDLESS_TQDM = re.compile(r"(?:^|\s)(\d+)it \[\d\d:\d\d")
_KERAS = re.compile(r"^\s*(\d+)/(\d+|Unknown)\s(?!\s*\d\d?:\d\d)")
_RICH = re.compile(r"[━╸╺─]\s*(\d+)/(\d+)\s")
_BRACKETS = re.compile(r"[\[(]\s*(\d+)/(\d+)(?=[\s\])])(?!\s*\d\d?:\d\d)")
_INDEX = re.compile(r"^(?:\[(\d+)\]|(\d+):)\s+(?=\S)")
_HEADER = re.compile(
    rf"^\W*(?:[A-Z]+\W+)?(?:\w+ing\s+)?(?:(?P<epoch>epoch)|(?:global[_ ]?)?(?:step|iter|iteration|round))\b"
    rf"\s*[:=#]?\s*[\[(]?\s*{_N}{_END}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """`step` of `total`, of the epoch if that is known. `epoch` may be a fraction: 0.5. `redrawn`: by a progress bar,
    which shows a step several times. `index`: a number of a round, which may begin at 0.
    """

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    redrawn: bool = False
    index: bool = False


NOWHERE = Place()
_MAX_PLACES = 16
OUT_OF_RANGE = -1
"""The step of a line with a number that none can be."""


def place_of(text: str) -> Place:
    """Where a line is."""
    lower = text.lower()
    match = _first(_EPOCH, text) if "epoch" in lower else None
    epoch = parsed(match[1]) if match else None
    for words, pattern in _STEP_WORDS:
        if any(word in lower for word in words) and (found := _first(pattern, text)):
            step = whole(found[1])
            return Place(OUT_OF_RANGE if step is None else step, whole(found[2] or ""), epoch)
    if found := _TQDM.search(text) or _RICH.search(text):
        return Place(int(found[1]), int(found[2]), epoch, redrawn=True)
    if found := _ENDLESS_TQDM.search(text):
        return Place(int(found[1]), None, epoch, redrawn=True)
    if found := _KERAS.match(text):
        return Place(int(found[1]), None if found[2] == "Unknown" else int(found[2]), epoch)
    if found := _BRACKETS.search(text, match.end() if match else 0):
        return Place(int(found[1]), int(found[2]), epoch)
    if found := _INDEX.match(text):
        return Place(int(found[1] or found[2]), None, epoch, index=True)
    return Place(epoch=epoch) if epoch is not None else NOWHERE


def split_bar(line: str) -> tuple[str, str]:
    """A bar, and what a program printed behind it, on the same line; "": nothing."""
    found = _BEGUN_LINE.match(line)
    return (line[: found.end()], line[found.end() :]) if found else (line, "")


def header_of(text: str) -> Place:
    """What a line without a value says of the values below it: `Epoch 1/3`, `Step 5`."""
    found = _HEADER.match(text)
    number = whole(found[2]) if found else None
    if found is None or number is None:
        return NOWHERE
    return Place(epoch=float(number)) if found["epoch"] else Place(step=number)


def _first(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = islice(pattern.finditer(text), _MAX_PLACES)
    return next((one for one in found if not _OTHER.search(text[max(one.start() - 8, 0) : one.start()])), None)
