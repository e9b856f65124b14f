"""tqdm, rich, loggers, JSON lines, colours, and what people print by hand."""

import logging
import sys
import time

from tests.log_styles.styles import style


def losses(count, offset=0.0):
    """Losses of gradient descent on a parabola."""
    weight = 3.0 + offset
    for _ in range(count):
        weight -= 0.1 * weight
        yield weight * weight


@style("loss")
def tqdm_postfix(truth):
    """A bar over steps, drawn with carriage returns and a colour."""
    from tqdm import tqdm

    truth.shown = "some"
    bar = tqdm(list(losses(20)), colour="green", desc="train")
    for step, loss in enumerate(bar, 1):
        time.sleep(0.02)
        bar.set_postfix(loss=loss, lr=1e-3)
        truth.add(step, loss)


@style("loss")
def tqdm_epochs(truth):
    """A bar for each epoch, updated by hand before the value is set."""
    from tqdm import tqdm

    truth.shown = "some"
    step = 0
    for epoch in range(3):
        with tqdm(total=8, desc=f"Epoch {epoch + 1}/3") as bar:
            for loss in losses(8, epoch):
                time.sleep(0.03)
                step += 1
                bar.update()
                bar.set_postfix(loss=f"{loss:.4f}")
                truth.add(step, loss)


@style("loss")
def tqdm_without_epochs(truth):
    """Bars one after another that do not say which epoch it is."""
    from tqdm import tqdm

    truth.shown = "some"
    step = 0
    for epoch in range(3):
        bar = tqdm(list(losses(8, epoch)))
        for loss in bar:
            time.sleep(0.03)
            step += 1
            bar.set_description(f"loss {loss:.4f}")
            truth.add(step, loss)


@style("loss")
def tqdm_and_print(truth):
    """A bar, and lines of a print beside it."""
    from tqdm import trange

    truth.steps = "epochs"
    for epoch, loss in zip(trange(5), losses(5), strict=True):
        time.sleep(0.05)
        print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
        truth.add(epoch + 1, loss)


@style("accuracy")
def logging_module(truth):
    """The logger's own prefix, thousands, percent."""
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    for number, loss in enumerate(losses(6), 1):
        step, accuracy = 1000 * number, 100 * (1 - loss / 10)
        logging.getLogger("trainer").info("step %s/6,000 loss %.3f accuracy %.2f%%", f"{step:,}", loss, accuracy)
        truth.add(step, accuracy)


@style("perplexity")
def thousands(truth):
    """Values with separators of thousands."""
    for number, loss in enumerate(losses(6, 100.0), 1):
        print(f"iter {number * 500:,} | perplexity {loss:,.2f} | tokens 1,024,000 | eta 0:01:00", flush=True)
        truth.add(number * 500, loss)


@style("val_loss")
def loguru_colours(truth):
    """Colours of loguru, and of the message."""
    from loguru import logger

    truth.steps = "epochs"
    logger.remove()
    logger.add(sys.stderr, colorize=True)
    for epoch, loss in enumerate(losses(5), 1):
        logger.opt(colors=True).info(f"Epoch {epoch}/5 <green>loss</green>=<red>{loss + 1:.4f}</red> "
                                     f"<green>val_loss</green>=<bold>{loss:.4f}</bold>")  # fmt: skip
        truth.add(epoch, loss)


@style("loss")
def structlog_json(truth):
    """A line of JSON for each event."""
    import structlog

    structlog.configure([structlog.processors.TimeStamper(), structlog.processors.JSONRenderer()])
    log = structlog.get_logger()
    for step, loss in enumerate(losses(6), 1):
        log.info("trained", step=10 * step, loss=loss, lr=1e-3)
        log.info("evaluated", step=10 * step, metrics={"val": {"loss": loss + 1}})
        truth.add(10 * step, loss)


@style("loss")
def structlog_console(truth):
    """Its console renderer, with colours and padding."""
    import structlog

    structlog.configure([structlog.processors.add_log_level, structlog.dev.ConsoleRenderer(colors=True)])
    for step, loss in enumerate(losses(6), 1):
        structlog.get_logger().info("trained", step=10 * step, loss=round(loss, 4), val_loss=1.0)
        truth.add(10 * step, loss)


@style("loss")
def rich_table(truth):
    """A table of rich."""
    from rich.console import Console
    from rich.table import Table

    truth.steps = "epochs"
    table = Table("epoch", "loss", "val_loss")
    for epoch, loss in enumerate(losses(5), 1):
        table.add_row(str(epoch), f"{loss:.4f}", f"{loss + 1:.4f}")
        truth.add(epoch, loss)
    Console(force_terminal=True, width=60).print(table)


@style("loss")
def jax_arrays(truth):
    """A loop in JAX that prints arrays."""
    import jax
    import jax.numpy as jnp

    truth.steps = "counted"

    @jax.jit
    def step(weight):
        loss, slope = jax.value_and_grad(lambda one: (one**2).sum())(weight)
        return weight - 0.1 * slope, loss

    weight = jnp.array([1.0, 2.0])
    for number in range(1, 6):
        weight, loss = step(weight)
        print({"loss": loss, "weight": 1.0}, flush=True)
        truth.add(number, loss)


@style("ep_rew_mean")
def tables_of_bars(truth):
    """A table at each report, as of Stable-Baselines3."""
    truth.steps = "counted"
    for number, loss in enumerate(losses(4), 1):
        rows = {"rollout/": "", "   ep_len_mean": 20, "   ep_rew_mean": f"{loss:.4g}", "time/": "", "   fps": 500}
        print("-" * 34)
        for name, value in rows.items():
            print(f"| {name:18} | {value!s:9} |")
        print("-" * 34, flush=True)
        truth.add(number, loss)
