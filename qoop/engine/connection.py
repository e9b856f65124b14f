"""The connection to Spark's JVM: large answers without a delay, and classes without a search."""

import threading
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_done = threading.local()


def without_delay(spark: SparkSession) -> None:
    """Let the JVM send answers of any size to this thread at once.

    Py4J writes an answer in pieces of 8 KB. With TCP's defaults each answer of several pieces takes 40 ms more: the
    JVM waits for the first to be acknowledged (Nagle's algorithm), and this side delays acknowledgements.
    """
    gateway: Any = spark.sparkContext._gateway
    if getattr(_done, "gateway", None) is gateway:
        return
    _done.gateway = gateway
    # Py4J has no setting for it. Without this all still works, only slower.
    with suppress(Py4JError, AttributeError, TypeError):
        for connection in open_connections(gateway):
            connection.getSocket().setTcpNoDelay(True)


def open_connections(gateway: Any) -> list[Any]:
    """The JVM's ends of the connections; each thread has its own."""
    field = java_class(gateway.jvm, "java.lang.Class").forName("py4j.GatewayServer").getDeclaredField("connections")
    field.setAccessible(True)
    # As an array: Python would ask for the items of a list until the JVM has none, which it reports as a failure.
    return list(field.get(gateway.java_gateway_server).toArray())


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM by its full name.

    Of `jvm.org.apache.spark...` Py4J asks, at each dot, whether this is a class yet; each time the JVM searches all its
    jars in vain, for milliseconds in all.
    """
    return JavaClass(name, jvm._gateway_client)
