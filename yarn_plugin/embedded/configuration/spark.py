"""spark-defaults.conf: what a Spark of this Python environment needs to run on an embedded cluster."""

from pathlib import Path

from yarn_plugin.embedded.layout import Layout

AM_MEMORY_MB, AM_OVERHEAD_MB = 256, 128


def spark_defaults(layout: Layout) -> dict[str, str]:
    """The properties. Jars are read where they lie, not copied for each application; masters are small.

    Spark's page is off: on YARN, Spark 4.3 changes its handlers while it starts them, and fails now and then.
    """
    import pyspark

    return {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent / 'jars'}/*",
        "spark.yarn.stagingDir": layout.staging.as_uri(),
        "spark.yarn.am.memory": f"{AM_MEMORY_MB}m",
        "spark.yarn.am.memoryOverhead": str(AM_OVERHEAD_MB),
        # A master has little to do: compiled once and quickly, it starts in half the processor time.
        "spark.yarn.am.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A driver on the cluster tells executors the address of its host, which would not be loopback.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.ui.enabled": "false",
    }


def write_spark_defaults(layout: Layout) -> None:
    """Write them where `SPARK_CONF_DIR` can point."""
    layout.spark_conf.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in spark_defaults(layout).items()]
    (layout.spark_conf / "spark-defaults.conf").write_text("".join(lines))
