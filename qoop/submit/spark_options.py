"""The words for spark-submit, checked before it starts: its own answer is a page of usage, seconds later."""

import re
from collections.abc import Collection, Sequence

from yarn_plugin.errors import BadInputError, ReportedError
from yarn_plugin.spelling import near

WITH_VALUE = frozenset(
    """--master --remote --deploy-mode --class --name --jars --packages --exclude-packages --repositories --py-files
    --files --archives --conf -c --properties-file --driver-memory --driver-java-options --driver-library-path
    --driver-class-path --executor-memory --proxy-user --driver-cores --total-executor-cores --executor-cores --queue
    --num-executors --principal --keytab --kill --status""".split()  # noqa: SIM905 - one a line would be a page
)
SWITCHES = frozenset({"--supervise", "--verbose", "-v", "--version", "--load-spark-defaults", "--usage-error"})

MASTER = re.compile(r"(?:local(?:\[(?:\*|0*[1-9]\d*)(?: *, *\d+)?\])?|local-cluster\[.*\]|yarn|(?:spark|k8s)://.+)")
SIZE = re.compile(r"\d+ *(?:b|k|kb|m|mb|g|gb|t|tb|p|pb)?", re.IGNORECASE)
SIZES = frozenset({"--driver-memory", "--executor-memory"})
COUNTS = {"--executor-cores": 1, "--driver-cores": 1, "--total-executor-cores": 1, "--num-executors": 0}
"""Options with a whole number, and the least that it may be."""

PROPERTIES = {"spark.qoop.plan": ("always", "auto", "never"), "spark.qoop.maxStored": ()}
"""Our own properties, with their values; no values: any."""


class SparkOptionError(ReportedError):
    """A word of the command line is no option of ours, nor of spark-submit."""

    exit_code = 2


def check_spark_options(words: Sequence[str], own: Collection[str], takes_file: bool = True) -> None:
    """Check the words that are passed on to spark-submit.

    Args:
        own: the command's own options, as which a misspelt one may have been meant.
        takes_file: the last word may be the file of the query or script.

    Raises:
        SparkOptionError: spark-submit has no such option, or it lacks its value; or a word is neither.
        BadInputError: a value that Spark would refuse.
    """
    place = 0
    while place < len(words):
        name, equals, value = words[place].partition("=")
        if name in WITH_VALUE:
            if not equals:
                place += 1
                if place == len(words):
                    raise SparkOptionError(f"{name}: requires a value")
                value = words[place]
            _check_value(name, value)
        elif name.startswith("--") and name not in SWITCHES:
            similar = near(name, [*own, *WITH_VALUE, *SWITCHES])
            raise SparkOptionError(f"{name}: no such option of qoop or of spark-submit{similar}")
        elif not name.startswith("-") and not (takes_file and place == len(words) - 1):
            expected = (
                "only the last argument is a file" if takes_file else "must be left out; this command takes no file"
            )
            raise BadInputError("argument", words[place], expected)
        place += 1


def _check_value(name: str, value: str) -> None:
    if name == "--master" and not MASTER.fullmatch(value):
        similar = near(value, ["local", "yarn"])
        raise BadInputError(name, value, f"must be local[N], yarn, or the address of a master{similar}")
    if name in SIZES and not SIZE.fullmatch(value.strip()):
        raise BadInputError(name, value, "must be a memory size such as 512m or 2g")
    if name in COUNTS and not (re.fullmatch(r"[0-9]{1,9}", value) and int(value) >= COUNTS[name]):
        raise BadInputError(name, value, f"must be a whole number, at least {COUNTS[name]}")
    if name == "--deploy-mode" and value not in ("client", "cluster"):
        raise BadInputError(name, value, f"must be client or cluster{near(value, ['client', 'cluster'])}")
    if name in ("--conf", "-c"):
        _check_property(name, value)


def _check_property(option: str, text: str) -> None:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise BadInputError(option, text, "must be PROPERTY=VALUE, such as spark.executor.memory=2g")
    if not key.startswith("spark.qoop.") or key.startswith("spark.qoop.server."):
        return
    if key not in PROPERTIES:
        raise BadInputError(option, text, f"qoop has no such property{near(key, PROPERTIES)}")
    if key == "spark.qoop.maxStored" and not SIZE.fullmatch(value):
        raise BadInputError(option, text, "must be a size, such as 50g")
    if PROPERTIES[key] and value not in PROPERTIES[key]:
        allowed = PROPERTIES[key]
        raise BadInputError(option, text, f"must be {', '.join(allowed[:-1])} or {allowed[-1]}{near(value, allowed)}")
