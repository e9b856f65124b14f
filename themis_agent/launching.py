"""What the launchers of a trial are started with, wherever they run."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from themis_agent.agent.commands import Place, StartTrial
from themis_agent.app_file import AppFile, Side
from themis_agent.communication import settings
from themis_agent.local.folder import Folder
from themis_agent.trial.wire import CheckpointSpec, LaunchSpec
from yarn_plugin.api.jobs import GpuPart


@dataclass(frozen=True)
class Site:
    """Where a launcher runs. `host`: its name for others. `directory`: for local checkpoints. `python`: that `python`
    stands for in commands. `gpu_locks`: see `LaunchSpec`. `logs`: for logs that are copied to a store. `has_gpus`:
    if not, trials that can run on either side run on cores.
    """

    host: str
    directory: str
    python: str
    devices: list[str] | None
    heartbeat_s: float
    gpu_locks: tuple[str, ...] = ()
    logs: str = ""
    has_gpus: bool = True


def launch_spec(app: AppFile, folder: Folder, url: str, command: StartTrial, place: Place, site: Site) -> LaunchSpec:
    """The launch file for one place of a trial. `url`: of the agent."""
    parameters, side = json.loads(command.parameters), app.side(is_slot=not site.has_gpus)
    return LaunchSpec(
        trial=command.trial,
        epoch=command.epoch,
        command=command_line(app, parameters, site.python, side),
        ranks=list(range(place.first_rank, place.first_rank + len(place.cells))),
        world_size=command.world_size,
        devices=site.devices,
        gpu_locks=list(site.gpu_locks),
        host=site.host,
        checkpoint=CheckpointSpec(
            directory=site.directory,
            url=app.checkpoint or folder.url_of(folder.checkpoints),
            keep=app.keep_checkpoints,
            parent=command.parent,
        ),
        grace_s=app.grace_s,
        orphan_s=app.orphan_s,
        heartbeat_s=site.heartbeat_s,
        log_directory=str(folder.logs) if folder.store is None else site.logs,
        log_url=None if folder.store is None else folder.url_of(folder.logs),
        agent_url=url,
        agent_address=folder.url_of(folder.address),
        token_file=folder.place_of(folder.token_file),
        env={**environment(app, parameters), **of_side(side, site.has_gpus)},
        metric=app.metric,
        metrics=list(app.metrics),
        loss_pattern=app.loss_pattern,
        report_timeout_s=app.report_timeout_s,
    )


def command_line(app: AppFile, parameters: dict[str, object], python: str, side: Side | None = None) -> list[str]:
    """The command of a trial with its parameters. A word with a parameter that the trial does not have is left out."""
    words = []
    for word in app.words_on(side):
        with contextlib.suppress(KeyError):
            words.append(word.format_map(parameters))
    if words[0] in ("python", "python3"):
        words[0] = app.environment.python or python
    return words


def environment(app: AppFile, parameters: dict[str, object]) -> dict[str, str]:
    """What is added to the environment of a trial's command."""
    ours = {"THEMIS_PARAMETERS": json.dumps(parameters), "THEMIS_MAX_STEPS": str(app.max_steps)}
    planned = {settings.MODE: app.communication} if app.communication == "planned" else {}
    shared = {} if app.sharing is None else part_limits(app.sharing)
    return {**planned, **shared, **app.environment.env, **ours}


def part_limits(part: GpuPart) -> dict[str, str]:
    """The variables that keep a process to its part of a GPU, as far as driver and framework heed them.

    CUDA's MPS limits the computing; JAX and TensorFlow, the memory. PyTorch has a call for it, which takes
    THEMIS_GPU_MEMORY_FRACTION: `torch.cuda.set_per_process_memory_fraction`.
    """
    memory = f"{part.peak_memory or part.memory:g}"
    return {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 * part.computing:g}",
        "THEMIS_GPU_MEMORY_FRACTION": memory,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": memory,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def of_side(side: Side | None, has_gpus: bool) -> dict[str, str]:
    """What a side adds to that: its own variables, and which side it is."""
    return {} if side is None else {**side.env, "THEMIS_SIDE": "gpu" if has_gpus else "cpu"}


def last_lines(path: Path, count: int) -> tuple[str, ...]:
    """The last lines of a file; none if it cannot be read."""
    try:
        return tuple(path.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ()
