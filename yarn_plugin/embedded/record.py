"""`cluster.json`: what is known of an embedded cluster between two commands."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from yarn_plugin import files
from yarn_plugin.embedded.errors import ClusterError, NoClusterError
from yarn_plugin.embedded.layout import Layout
from yarn_plugin.embedded.spec import ClusterSpec


class ClusterRecord(BaseModel):
    """Written before the first daemon starts, so that whatever is started can be found and ended.

    Every process of the cluster carries `id` in its environment, every daemon also in its command line: no process
    number is ever recorded, so none can be stale. `cgroups` are the control groups the cluster may have made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    id: str
    spec: ClusterSpec
    java: Path
    jars: tuple[Path, ...]
    cgroups: dict[str, Path] = {}
    """By node address."""

    def save(self) -> None:
        """Write the record, whole or not at all."""
        files.write(Layout(self.spec.dir).record, self.model_dump_json(indent=2) + "\n")


def read(directory: Path) -> ClusterRecord:
    """The record of the cluster in a directory. Raises `NoClusterError` where there is none."""
    path = Layout(directory).record
    try:
        return ClusterRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as missing:
        raise NoClusterError(
            f"no cluster in {directory}: bring one up with `yarn-plugin cluster up --dir {directory}`"
        ) from missing
    except OSError as refused:
        raise ClusterError(f"{path} cannot be read: {refused.strerror}") from refused
    except ValidationError as wrong:
        first = wrong.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ClusterError(
            f"{path}: {where}: {first['msg']}: not a record of this version; remove {directory}"
        ) from wrong
