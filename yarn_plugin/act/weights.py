"""Queue weights: written in one request, read back, compared."""

from collections.abc import Sequence

from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ManagerError, ResourceManager

CONF = "/scheduler-conf"


class WeightsIgnoredError(ManagerError):
    """The ResourceManager said yes and did not do it."""


def write_weights(manager: ResourceManager, weights: Sequence[tuple[str, float]], forget: Sequence[str]) -> None:
    """Give dynamic leaf queues their weights, take back those of queues that are gone, and check.

    The JSON body is bare: wrapped in "sched-conf" the RM answers 200 and changes nothing. Writing an empty value takes
    a property back.

    Raises:
        ManagerError: the RM refused, or did not keep what was written.
    """
    wanted = {queue: f"{weight:g}w" for queue, weight in weights} | dict.fromkeys(forget, "")
    manager.put(CONF, {"update-queue": [_update(queue, value) for queue, value in wanted.items()]})
    kept = translate.configuration(manager.get(CONF))
    for queue, value in wanted.items():
        found = kept.get(f"yarn.scheduler.capacity.{queue}.capacity", "")
        if _number(found) != _number(value):
            raise WeightsIgnoredError(f"queue {queue}: capacity {value!r} was written, the RM has {found!r}")


def _update(queue: str, value: str) -> dict[str, object]:
    return {"queue-name": queue, "params": {"entry": [{"key": "capacity", "value": value}]}}


def _number(text: str) -> float | None:
    return float(text.removesuffix("w")) if text else None
