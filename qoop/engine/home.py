"""Where Spark is installed."""

import os
from pathlib import Path


def spark_home() -> Path:
    """The user's Spark (SPARK_HOME), or the one that came with pyspark."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home)
    import pyspark

    return Path(pyspark.__file__).parent
