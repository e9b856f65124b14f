"""Workloads of the AlloX authors' simulator: jobs that run on a GPU or on cores. Three lines a job, or four with edges:

    # NAME
    STAGES NUMBER ITERATIONS ARRIVAL_S USER
    STAGE -1.0 CORES MEMORY_GB CPU_S GPUS GPU_MEMORY_GB GPU_S TASKS [CPU_ERROR GPU_ERROR]
    0

A scheduler believes that a job takes its time times 1 + its error. The first alternative of a job is its GPU side.
"""

from math import ceil, isfinite
from pathlib import Path

from yarn_plugin.model.resources import GPU, MEMORY, VCORES, Resources
from yarn_plugin.model.share import Demand
from yarn_plugin.simulation.jobs.job import Job, JobWorkload
from yarn_plugin.toml_files import FileError, read_text


def is_allox(path: Path) -> bool:
    """Whether a file is one of theirs, by its suffix."""
    return path.suffix.lower() == ".txt"


def read(where: str, path: Path) -> JobWorkload:
    """The jobs of a file, in order of arrival.

    Raises:
        FileError: the file is invalid; names the line, the field and the value.
    """
    lines = [(number, line.split()) for number, line in enumerate(read_text(where, path).splitlines(), 1)]
    blocks: list[list[tuple[int, list[str]]]] = []
    for number, words in lines:
        if words and words[0] == "#":
            blocks.append([])
        elif words and blocks:
            blocks[-1].append((number, words))
        elif words:
            raise FileError(f"{where}: line {number}: must be # and the name of the first job")
    if not blocks:
        raise FileError(f"{where}: has no jobs; each begins with a line such as '# 0'")
    jobs = sorted((_job(where, block) for block in blocks), key=lambda job: (job.arrives_at, job.number))
    return JobWorkload(tuple(jobs))


def _job(where: str, block: list[tuple[int, list[str]]]) -> Job:
    if len(block) < 2:
        line = block[0][0] if block else 0
        raise FileError(f"{where}: line {line}: a job must have a line with its arrival and one with its stage")
    (head_line, head), (line, stage) = block[:2]
    if len(head) < 5:
        raise FileError(f"{where}: line {head_line}: must be stages, number, iterations, arrival and user")
    if len(stage) not in (9, 11):
        raise FileError(
            f"{where}: line {line}: {len(stage)} fields; must be 9, or 11 with the errors of both estimates"
        )
    arrival = _number(where, head_line, "arrival", head[3])
    names = ("CORES", "MEMORY_GB", "CPU_S", "GPUS", "GPU_MEMORY_GB", "GPU_S", "TASKS", "CPU_ERROR", "GPU_ERROR")
    given = zip(names, stage[2:], strict=False)
    values = {name: _number(where, line, name, word, name.endswith("ERROR")) for name, word in given}
    on_gpu, on_cpu = values["GPU_S"], values["CPU_S"]
    errors = values.get("GPU_ERROR", 0.0), values.get("CPU_ERROR", 0.0)
    demand = Demand(
        (
            Resources.of({GPU: max(ceil(values["GPUS"]), 1)}),
            Resources.of({VCORES: max(ceil(values["CORES"]), 1), MEMORY: ceil(values["MEMORY_GB"] * 1024)}),
        )
    )
    estimated = tuple(seconds * (1 + error) for seconds, error in zip((on_gpu, on_cpu), errors, strict=True))
    if min(on_gpu, on_cpu, *estimated) <= 0:
        raise FileError(f"{where}: line {line}: times must be above 0, and errors above -1")
    number = round(_number(where, head_line, "number", head[1]))
    return Job(number, head[4], arrival, demand, (on_gpu, on_cpu), estimated)


def _number(where: str, line: int, name: str, word: str, may_be_negative: bool = False) -> float:
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or (value < 0 and not may_be_negative):
        raise FileError(f"{where}: line {line}: {name} {word!r}: must be a number, not negative")
    return value
