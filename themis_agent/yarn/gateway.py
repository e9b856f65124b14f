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
    """pyspark, which ships the jars, is not installed."""


def launch(conf_dir: Path, heap_mb: int = 128, options: Sequence[str] = _OPTIONS) -> JavaGateway:
    """Start a JVM that ends with this process. `conf_dir`: the `HADOOP_CONF_DIR`.

    Raises:
        JarsMissingError: pyspark is not installed in this Python.
    """
    jars = _spark_jars()
    class_path = [str(conf_dir), *(str(jar) for start in _JARS for jar in sorted(jars.glob(f"{start}*.jar")))]
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=":".join(class_path),
        javaopts=[f"-Xmx{heap_mb}m", *options],
        die_on_exit=True,
        enable_auth=True,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters)


def _spark_jars() -> Path:
    found: Any = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JarsMissingError("pyspark, whose jars an application master runs on, is not installed in this Python")
    return Path(found.origin).parent / "jars"
