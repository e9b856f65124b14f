"""Data-parallel training on scikit-learn's digits with JAX, on any number of processes, from checkpoint to checkpoint.

    python -m themis_agent.examples.digits_jax --steps 200

The loss at a step is the same for each number of processes up to rounding, as is what is computed after a restart: the
global batch is fixed, the order of the images depends on the seed and the step alone, and numbers have 64 bits.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from themis_agent.examples.digits_arguments import EmulatedStep, Place, parse
from themis_agent.examples.digits_data import Digits
from themis_agent.trial import newest_checkpoint, report, save_checkpoint, should_stop

Weights = dict[str, Any]


def main() -> None:
    """Train."""
    place = Place.from_environment()
    arguments = parse("Train on scikit-learn's digits with JAX.", place)
    jax.config.update("jax_enable_x64", True)
    if place.world_size > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # It would take over SIGTERM, of which the launcher's stop file tells as well.
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(place.master, place.world_size, place.rank)
    # One device for each process: the launcher starts one process for each GPU.
    devices = [next(one for one in jax.devices() if one.process_index == rank) for rank in range(place.world_size)]
    mesh = Mesh(np.array(devices), ("data",))
    train(arguments, place, mesh, Digits(arguments.batch, arguments.seed))


def train(arguments: Any, place: Place, mesh: Mesh, digits: Digits) -> None:
    """From the newest checkpoint to the last step, or until the gang is to stop."""
    split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    step, weights, velocity = _restored() or (0, *_initial(arguments.hidden, arguments.seed))
    weights, velocity = jax.device_put((weights, velocity), whole)
    images, labels = (jax.device_put(one, whole) for one in digits.held_out)
    update = jax.jit(partial(_update, rate=arguments.learning_rate, momentum=arguments.momentum))
    held_out_loss = jax.jit(_loss)
    emulated = EmulatedStep(arguments.emulated_step_ms, place.world_size)
    while step < arguments.steps:
        step += 1
        for number in range((step - 1) * arguments.batches_per_step + 1, step * arguments.batches_per_step + 1):
            mine = (*digits.shard(number, place.rank, place.world_size), np.array([should_stop()]))
            shards = [jax.make_array_from_process_local_data(split, one) for one in mine]
            # Whether any process is to stop is part of the step: so all stop after the same one.
            weights, velocity, stopping = update(weights, velocity, *shards)
        loss = float(held_out_loss(weights, images, labels))
        emulated.end()
        report(step, loss)
        last = bool(stopping) or step == arguments.steps
        if place.rank == 0 and (last or step % arguments.checkpoint_every == 0):
            with save_checkpoint(step) as directory:
                _save(directory, step, weights, velocity)
        if last:
            break


def _initial(hidden: int, seed: int) -> tuple[Weights, Weights]:
    generator = np.random.default_rng(seed)
    weights = {
        "into": generator.normal(0, 64**-0.5, (64, hidden)),
        "into_bias": np.zeros(hidden),
        "out": generator.normal(0, hidden**-0.5, (hidden, 10)),
        "out_bias": np.zeros(10),
    }
    return weights, {name: np.zeros_like(value) for name, value in weights.items()}


def _loss(weights: Weights, images: Any, labels: Any) -> Any:
    hidden = jnp.tanh(images @ weights["into"] + weights["into_bias"])
    scores = jax.nn.log_softmax(hidden @ weights["out"] + weights["out_bias"])
    return -jnp.mean(scores[jnp.arange(len(labels)), labels])


def _update(
    weights: Weights, velocity: Weights, images: Any, labels: Any, stopping: Any, *, rate: float, momentum: float
) -> tuple[Weights, Weights, Any]:
    """SGD with momentum; the mean over the global batch makes the compiler sum gradients over processes."""
    slopes = jax.grad(_loss)(weights, images, labels)
    velocity = jax.tree.map(lambda moving, slope: momentum * moving - rate * slope, velocity, slopes)
    return jax.tree.map(jnp.add, weights, velocity), velocity, jnp.any(stopping)


def _save(directory: Path, step: int, weights: Weights, velocity: Weights) -> None:
    moving = {f"velocity_{name}": value for name, value in velocity.items()}
    state: Any = {"step": step, **{name: np.asarray(one) for name, one in (weights | moving).items()}}
    np.savez(directory / "state.npz", **state)


def _restored() -> tuple[int, Weights, Weights] | None:
    directory = newest_checkpoint()
    if directory is None:
        return None
    with np.load(directory / "state.npz") as state:
        names = [name for name in state.files if name != "step" and not name.startswith("velocity_")]
        velocity = {name: state[f"velocity_{name}"] for name in names}
        return int(state["step"]), {name: state[name] for name in names}, velocity


if __name__ == "__main__":
    main()
