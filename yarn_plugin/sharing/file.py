"""Files of interference (JSON): our own, and the throughputs that Gavel's authors measured.

Ours, which `themis-agent interference measure` writes (docs/sharing.md):

    {"format": "interference/1",
     "kinds": {"resnet": {"family": "cnn", "numbers": {"log_steps_per_s": 2.1}}, "lstm": {...}},
     "pairs": [{"kind": "resnet", "beside": "lstm", "slowdown": 0.15}, ...]}

Gavel's has, by type of GPU and of job, the iterations per second alone ("null") and beside each other type.
"""

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from yarn_plugin.decide.mechanisms.interference import Interference, Pair, Profile
from yarn_plugin.errors import BadInputError
from yarn_plugin.files import write
from yarn_plugin.toml_files import FileError, Section, read_text, validate

FORMAT = "interference/1"
GAVEL_GPU = "v100"
"""The GPUs of Gavel's pairs: on the others hardly any pair could share."""

_ALONE = ("v100", "p100", "k80")
_NAME = re.compile(r"\('(?P<kind>(?P<family>[^'(]*?)(?: \(batch size (?P<batch>\d+)\))?)', (?P<gpus>\d+)\)")


class _Profile(Section):
    family: str = ""
    numbers: dict[str, float] = Field(default={})


class _Pair(Section):
    kind: str
    beside: str
    slowdown: Annotated[float, Field(ge=0, le=1e6)]


class _File(Section):
    model_config = ConfigDict(extra="forbid")

    format: Literal["interference/1"]
    kinds: dict[Annotated[str, Field(min_length=1, max_length=200)], _Profile]
    pairs: list[_Pair] = Field(default=[])


def read_interference(where: str, path: Path) -> Interference:
    """Read a file of either format. `where`: names it in errors.

    Raises:
        FileError: it cannot be read, or something in it is invalid.
    """
    try:
        given = json.loads(read_text(where, path))
    except ValueError as problem:
        raise FileError(f"{where}: not JSON: {problem}") from None
    except RecursionError:
        raise FileError(f"{where}: nested too deep") from None
    if isinstance(given, dict) and GAVEL_GPU in given and "format" not in given:
        return _of_gavel(where, given)
    found = validate(_File, given if isinstance(given, dict) else {}, where, keys_in="docs/sharing.md")
    kinds = {name: Profile(one.numbers, one.family) for name, one in found.kinds.items()}
    try:
        return Interference(kinds, tuple(Pair(one.kind, one.beside, one.slowdown) for one in found.pairs))
    except BadInputError as problem:
        raise FileError(f"{where}: {problem}") from None


def write_interference(path: Path, known: Interference) -> None:
    """Write a file; whole or not at all."""
    kinds = {name: {"family": one.family, "numbers": dict(one.numbers)} for name, one in known.kinds.items()}
    pairs = [{"kind": one.kind, "beside": one.beside, "slowdown": round(one.slowdown, 4)} for one in known.pairs]
    write(path, json.dumps({"format": FORMAT, "kinds": kinds, "pairs": pairs}, indent=1) + "\n")


def _of_gavel(where: str, given: dict[str, Any]) -> Interference:
    """Jobs on one GPU. Pairs with a throughput of 0 failed, and may not share."""
    try:
        jobs = {name: match for name in given[GAVEL_GPU] if (match := _NAME.fullmatch(name)) and match["gpus"] == "1"}
        kinds, pairs = {}, []
        for name, match in jobs.items():
            numbers = {
                f"log_steps_per_s_{gpu}": math.log(given[gpu][name]["null"])
                for gpu in _ALONE
                if name in given.get(gpu, {})
            }
            kinds[match["kind"]] = Profile(
                {**numbers, "log_batch": math.log(float(match["batch"] or 1))}, match["family"]
            )
            for other, beside in jobs.items():
                mine, theirs = given[GAVEL_GPU][name].get(other, (0.0, 0.0))
                if mine > 0 and theirs > 0:
                    slowdown = max(given[GAVEL_GPU][name]["null"] / mine - 1, 0.0)
                    pairs.append(Pair(match["kind"], beside["kind"], slowdown))
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise FileError(f"{where}: not as Gavel's throughputs are: {type(problem).__name__}: {problem}") from None
    return Interference(kinds, tuple(pairs))
