"""A JVM with Hadoop's YARN clients."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from yarn_plugin.errors import ReportedError

# The order matters: the shaded clients before the logging bridges.
_JARS = ("hadoop-client-api-", "hadoop-client-runtime-", "jcl-over-slf4j-", "slf4j-api-", "log4j-")

_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""It does little: with the fast compiler tier alone it starts in half the CPU time."""


class JarsMissingError(ReportedError):
    """Hadoop's jars, or py4j's, are not there."""


def launch(
    conf_dir: Path | None,
    heap_mb: int = 128,
    options: Sequence[str] = _OPTIONS,
    class_path: Sequence[str] = (),
    java: str | None = None,
) -> JavaGateway:
    """Start a JVM that ends with this process.

    `conf_dir`: the `HADOOP_CONF_DIR`; None: it is in the class path. `class_path`: with Hadoop's clients and py4j; by
    default those of pyspark in this Python. `java`: the command.

    Raises:
        JarsMissingError: py4j is not in the class path, or there is neither a class path nor pyspark.
    """
    jars = list(class_path) or _spark_jars()
    port, token = launch_gateway(
        jarpath=_py4j(jars),
        classpath=":".join([*([str(conf_dir)] if conf_dir is not None else []), *jars]),
        javaopts=[f"-Xmx{heap_mb}m", *options],
        die_on_exit=True,
        enable_auth=True,
        **({"java_path": java} if java is not None else {}),
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters)


def _spark_jars() -> list[str]:
    found: Any = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarsMissingError("pyspark, whose jars an application master runs on, is not installed in this Python")
    jars = Path(found.origin).parent / "jars"
    return [str(jar) for start in (*_JARS, "py4j-") for jar in sorted(jars.glob(f"{start}*.jar"))]


def _py4j(class_path: Sequence[str]) -> str:
    """The jar that starts the JVM's side; `DIRECTORY/*` in a class path stands for the jars there."""
    for entry in map(Path, class_path):
        for jar in sorted(entry.parent.glob("*.jar")) if entry.name == "*" else [entry]:
            if jar.name.startswith("py4j") and jar.exists():
                return str(jar)
    raise JarsMissingError(f"no py4j*.jar in the class path {':'.join(class_path)}")
