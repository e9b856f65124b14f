"""Containers of an application: listed, and told to end."""

from collections.abc import Sequence

from yarn_plugin.model.cluster import Container
from yarn_plugin.observe import translate
from yarn_plugin.observe.resource_manager import ManagerAwayError, ManagerError, ResourceManager


def list_containers(manager: ResourceManager, yarn_app: str) -> tuple[Container, ...]:
    """The running containers of an application's present attempt.

    Raises:
        ManagerError: the RM does not answer, or no longer knows the application.
    """
    attempts = translate.attempts(manager.get(f"/apps/{yarn_app}/appattempts"))
    if not attempts:
        return ()
    attempt, master = attempts[-1]
    return translate.containers(manager.get(f"/apps/{yarn_app}/appattempts/{attempt}/containers"), master)


def end_containers(manager: ResourceManager, containers: Sequence[str]) -> tuple[str, ...]:
    """Tell containers to end at once. Returns those that could not be told, with the reason.

    Raises:
        ManagerAwayError: no RM answers.
    """
    failed: list[str] = []
    for container in containers:
        try:
            manager.post(f"/containers/{container}/signal/FORCEFUL_SHUTDOWN")
        except ManagerAwayError:
            raise
        except ManagerError as problem:
            failed.append(f"{container}: {problem}")
    return tuple(failed)
