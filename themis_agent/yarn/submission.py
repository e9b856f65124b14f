"""What `themis-agent submit` leaves in the folder of a search for its application master.

submission.json   this, written last: then the application is registered; readable by its owner alone, as all here
token             of the search's launchers             arbiter-token   of the application at the arbiter
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from themis_agent.local.folder import Folder

FILE = "submission.json"
ARBITER_TOKEN, CERTIFICATES = "arbiter-token", "arbiter-ca.pem"
CODE, PACKAGES, JARS = "themis-code", "themis-packages", "themis-jars"
"""Names of the staged archives in the working directory of a container."""

LOCAL_CHECKPOINTS = "checkpoint"
"""The folder of a trial's local checkpoints there."""

LOCAL_LOGS, LOCAL_COPY = "trial-logs", "search-copy"
"""There, of a search in HDFS: a trial's logs, and the master's copy of the search's folder."""


class Part(BaseModel):
    """A type of these files: immutable; unknown fields, of a later version, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class LocalResource(Part):
    """A file that YARN copies to a node before a container starts, and links into its working directory as `name`.

    `url`, `size` (bytes) and `modified_ms` (since the epoch) must be as YARN finds them. `public`: kept once for all
    users of a node; else for this user. An archive is unpacked.
    """

    name: str
    url: str
    size: int
    modified_ms: int
    type: Literal["FILE", "ARCHIVE"] = "FILE"
    public: bool = False


class ArbiterAccess(Part):
    """Where the search is registered. `app`: its id there. `ca`: path of certificates to trust; None: the system's.
    `pool`, `recovery_token`: to register again with an arbiter that has lost its journal; arbiters and submissions of
    earlier versions have none."""

    url: str
    app: str
    ca: str | None = None
    pool: str = ""
    recovery_token: str | None = None


class ContainerSize(Part):
    """Resources of a trial's container beside its GPUs, for each GPU."""

    memory_mb: Annotated[int, Field(ge=64)]
    vcores: Annotated[int, Field(ge=1)] = 1


class Submission(Part):
    """A search as a YARN application.

    `python`: the interpreter on the nodes; `compiled_for`: its cache tag and type of machine, such as "cpython-311" and
    "x86_64"; empty: not checked. `environment`: of the master and of launchers; values may refer to the container's
    working directory as `{{PWD}}`, which YARN expands. `resources`: of launchers' containers, the agent's own code
    among them. `java`, `class_path`: of the JVM with Hadoop's clients and py4j, for the master; paths may be relative
    to its working directory. `partition`: the node label of the GPUs; "" without. `image`: for YARN's Docker runtime;
    None: processes.
    `isolates_gpus`: NodeManagers show a container its own GPUs alone: trials use those that they see. If not, they use
    those that are leased. `attempts_before`: the number of the agent's last attempt in earlier applications, for a
    search that is resumed. `retry_failed`: it then tries trials again that have failed.
    """

    yarn_app: str
    resource_manager: str
    arbiter: ArbiterAccess
    python: str
    compiled_for: tuple[str, ...] = ()
    container: ContainerSize
    environment: dict[str, str] = {}
    resources: tuple[LocalResource, ...] = ()
    java: str | None = None
    class_path: tuple[str, ...] = ()
    partition: str = ""
    image: str | None = None
    isolates_gpus: bool = False
    attempts_before: Annotated[int, Field(ge=0)] = 0
    retry_failed: bool = False

    def words(self, module: str, *arguments: str, waits_in: str | None = None) -> list[str]:
        """The command of a module of ours in a container. `waits_in`: a folder; see `start`."""
        if not self.compiled_for:
            return [self.python, "-m", module, *arguments]
        waits = () if waits_in is None else ("--submission", waits_in)
        return [self.python, f"{CODE}/themis_agent/yarn/start.py", *waits, *self.compiled_for, module, *arguments]


def is_in(folder: Path) -> bool:
    """Whether a folder has one."""
    return (folder / FILE).exists()


def write(folder: Path, submission: Submission) -> None:
    """Write it into the folder of a search."""
    Folder(folder).write(folder / FILE, submission.model_dump_json(indent=2) + "\n")


def read(folder: Path) -> Submission:
    """Read it from there.

    Raises:
        OSError: it cannot be read.
        ValidationError: it is none.
    """
    return Submission.model_validate_json(Folder(folder).read(folder / FILE))
