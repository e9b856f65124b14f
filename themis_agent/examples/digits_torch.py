"""Data-parallel training on scikit-learn's digits with PyTorch DDP, from checkpoint to checkpoint; extra `[torch]`.

    python -m themis_agent.examples.digits_torch --steps 200

As `digits_jax`: the loss at a step is the same for each number of processes, up to rounding.
"""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from themis_agent import communication
from themis_agent.examples.digits_arguments import EmulatedStep, Place, parse
from themis_agent.examples.digits_data import Digits
from themis_agent.trial import newest_checkpoint, report, save_checkpoint, should_stop


def main() -> None:
    """Train."""
    place = Place.from_environment()
    arguments = parse("Train on scikit-learn's digits with PyTorch DDP.", place)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if place.world_size > 1:
        # Where to meet comes from the environment.
        communication.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(arguments, place, device, Digits(arguments.batch, arguments.seed))
    if place.world_size > 1:
        dist.destroy_process_group()


def train(arguments: Any, place: Place, device: torch.device, digits: Digits) -> None:
    """From the newest checkpoint to the last step, or until the gang is to stop."""
    torch.manual_seed(arguments.seed)
    network = nn.Sequential(nn.Linear(64, arguments.hidden), nn.Tanh(), nn.Linear(arguments.hidden, 10))
    network = network.to(device, torch.float64)
    optimizer = torch.optim.SGD(network.parameters(), arguments.learning_rate, arguments.momentum)
    step = _restore(network, optimizer, device)
    model = DistributedDataParallel(network) if place.world_size > 1 else network
    images, labels = (torch.as_tensor(one, device=device) for one in digits.held_out)
    loss_of = nn.CrossEntropyLoss()
    emulated = EmulatedStep(arguments.emulated_step_ms, place.world_size)
    while step < arguments.steps:
        step += 1
        for number in range((step - 1) * arguments.batches_per_step + 1, step * arguments.batches_per_step + 1):
            mine, answers = (
                torch.as_tensor(one, device=device) for one in digits.shard(number, place.rank, place.world_size)
            )
            optimizer.zero_grad()
            # DDP takes the mean over processes; their shards are equally large.
            loss_of(model(mine), answers).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(loss_of(network(images), labels))
        emulated.end()
        report(step, loss)
        last = _any_stops(place, device) or step == arguments.steps
        if place.rank == 0 and (last or step % arguments.checkpoint_every == 0):
            with save_checkpoint(step) as directory:
                state = {"step": step, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, directory / "state.pt")
        if last:
            break


def _restore(network: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    directory: Path | None = newest_checkpoint()
    if directory is None:
        return 0
    state = torch.load(directory / "state.pt", map_location=device, weights_only=True)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _any_stops(place: Place, device: torch.device) -> bool:
    """Whether any process is to stop: so all stop after the same step."""
    stopping = torch.tensor(float(should_stop()), device=device)
    if place.world_size > 1:
        dist.all_reduce(stopping)
    return bool(stopping)


if __name__ == "__main__":
    main()
