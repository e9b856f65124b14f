"""`qoop server` with real Spark under load: many clients, cancels at random moments, and clients that mean harm."""

import contextlib
import gc
import random
import socket
import statistics
import struct
import threading
import time
from collections import deque

import psutil
import pytest

import qoop
from qoop.feedback.shares import Shares
from qoop.server.handler import SHORT_CALLS
from qoop.server.spark import SparkApplication
from tests.server_world import Client, World, small
from tests.spark.spark_sessions import active_jobs, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.matrix]

FINISHED = 2


class Feed:
    """A share that does not change."""

    def start(self, emit):
        emit(qoop.replan.events.ShareChanged(2.0, None, "the whole pool", time.time()))

    def close(self):
        pass


@pytest.fixture(scope="module")
def world(spark):
    shares = Shares(Feed(), None, is_fixed=True)
    shares.start()
    limits = small(memory_bytes=1_000_000, poll_s=0.5)
    with World(limits, backend=SparkApplication(spark, shares, qoop.Options())).running() as running:
        yield running
    shares.close()


def ask(client, session, text):
    operation = client.execute(session, text).operationHandle
    status = client.until_ended(operation)
    assert status.operationState == FINISHED, status.errorMessage
    client.fetch(operation)
    client.call("CloseOperation", operationHandle=operation)


def in_threads(function, arguments):
    failures = []

    def run(argument):
        try:
            function(argument)
        except Exception as failure:  # noqa: BLE001 - told by the test
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def kept_in(spark, process):
    """What is in use once garbage has been collected: where memory grows, if it does."""
    gc.collect()
    jvm = spark._jvm
    jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory
    parts = {bean.getName(): bean.getUsage().getUsed() for bean in beans.getMemoryPoolMXBeans()}
    heap = beans.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    sizes = {"here": process.memory_info().rss, "heap": heap, "metaspace": parts["Metaspace"]}
    sizes["code"] = sum(size for name, size in parts.items() if name.startswith(("CodeHeap", "CodeCache")))
    return {name: round(size / 2**20) for name, size in sizes.items()}


def test_fifty_clients_and_five_hundred_statements(world, spark):
    texts = ["SELECT 1", "SHOW TABLES", "SELECT count(*) FROM item", "SELECT i_category, count(*) FROM item GROUP BY 1"]
    process = psutil.Process()
    family = [process, *process.children(recursive=True)]

    def use():
        return sum(one.memory_info().rss for one in family)

    def client(number):
        with Client(world.port, user=f"user{number % 7}") as connected:
            connected.socket.settimeout(300)
            session = connected.open()
            for turn in range(5):
                ask(connected, session, texts[(number + turn) % len(texts)])

    def threads():
        return threading.active_count(), sum(one.num_threads() for one in family) - process.num_threads()

    before, memory, kept = threads(), [], []
    for _ in range(2):
        in_threads(client, range(50))
        memory.append(use())
        kept.append(kept_in(spark, process))
    busy = threads()
    time.sleep(66)  # Spark keeps idle threads for a minute.
    print(f"memory after each half: {[round(used / 2**20) for used in memory]} MiB, {memory[1] / memory[0] - 1:+.1%}")
    first, second = (sum(one.values()) for one in kept)
    print(f"in use once garbage is collected: {kept} MiB, {second / first - 1:+.1%}; idle: {kept_in(spark, process)}")
    print(f"threads here and of the JVM: before {before}, at the end {busy}, later {threads()}")
    # The threads for short calls are started when they are needed, and stay.
    assert threads()[0] <= before[0] + SHORT_CALLS
    assert world.room.used == (0, 0)


def test_a_tiny_query_through_the_server_and_by_spark_itself(world, spark):
    by_spark, by_server = [], []
    with Client(world.port) as client:
        session = client.open()
        for _ in range(110):
            began = time.monotonic()
            spark.sql("SELECT 1").collect()
            between = time.monotonic()
            ask(client, session, "SELECT 1")
            by_spark.append(between - began)
            by_server.append(time.monotonic() - between)
    medians = [1000 * statistics.median(times[10:]) for times in (by_spark, by_server)]
    print(f"medians of 100 pairs: spark.sql {medians[0]:.0f} ms, through the server {medians[1]:.0f} ms")


MANY_TASKS = "SELECT sum(id % 7) FROM range(0, 400000, 1, 40)"


def served(world, text, total):
    """How many of `total` statements four sessions were served: two always have one open, and two have ten."""
    counts, ended = [0] * 4, threading.Event()

    def client(number):
        with Client(world.port, user=f"user{number}") as connected:
            connected.socket.settimeout(300)
            session = connected.open()
            opened = deque()
            while not ended.is_set():
                while len(opened) < 1 + 9 * (number % 2):
                    opened.append(connected.execute(session, text).operationHandle)
                operation = opened.popleft()
                connected.until_ended(operation)
                connected.call("CloseOperation", operationHandle=operation)
                if not ended.is_set():
                    counts[number] += 1
                    if sum(counts) >= total:
                        ended.set()

    in_threads(client, range(4))
    return counts


@pytest.mark.parametrize("text", [MANY_TASKS, "SELECT 1"], ids=["many short tasks", "SELECT 1"])
def test_statements_served_a_session(world, text):
    counts = served(world, text, 80)
    print(f"served, with 1 and 10 open by turns: {counts}; most to least {max(counts) / max(min(counts), 1):.2f}")
    assert min(counts) > 0


def test_twenty_cancels_at_random_moments(world, spark):
    generator, took = random.Random(5), []
    text = """SELECT count(*) FROM store_sales a JOIN store_sales b ON a.ss_item_sk = b.ss_item_sk
      JOIN store_sales c ON b.ss_customer_sk = c.ss_customer_sk JOIN item ON c.ss_item_sk = i_item_sk"""
    with Client(world.port) as client:
        session = client.open()
        for _ in range(20):
            operation = client.execute(session, text).operationHandle
            time.sleep(generator.uniform(0.0, 2.0))
            began = time.monotonic()
            client.call("CancelOperation", operationHandle=operation)
            wait_until(lambda: not active_jobs(spark) and not world.handler.is_busy)
            took.append(time.monotonic() - began)
            client.call("CloseOperation", operationHandle=operation)
        time.sleep(1)
        assert not active_jobs(spark)
    print(f"seconds until no task ran: median {statistics.median(took):.2f}, p95 {sorted(took)[18]:.2f}")


def test_a_neighbour_under_attack(world):
    """What each attack is: a huge statement, sessions without end, silence, results never fetched, slow readers."""
    ended = threading.Event()

    def attack(number):
        while not ended.is_set():
            with contextlib.suppress(OSError, ConnectionError, struct.error):
                _attack(world, number % 6, ended)

    with Client(world.port, user="neighbour") as client:
        session = client.open()
        ask(client, session, "SELECT 1")
        quiet = _times(client, session)
        attackers = [threading.Thread(target=attack, args=(number,)) for number in range(12)]
        for thread in attackers:
            thread.start()
        time.sleep(2)
        try:
            attacked = _times(client, session)
        finally:
            ended.set()
            for thread in attackers:
                thread.join()
    p95 = [sorted(times)[int(0.95 * len(times))] for times in (quiet, attacked)]
    print(f"p95 of SELECT 1: quiet {1000 * p95[0]:.0f} ms, under attack {1000 * p95[1]:.0f} ms")


def _times(client, session):
    times = []
    for _ in range(60):
        began = time.monotonic()
        ask(client, session, "SELECT 1")
        times.append(time.monotonic() - began)
    return times


def _attack(world, kind, ended):
    if kind == 0:
        with Client(world.port, user="hog") as client:
            client.socket.sendall(struct.pack("!i", 1 << 30) + bytes(1 << 20))
            client.read(1)
    elif kind == 1:
        with Client(world.port, "http", user="hog") as client:
            client.open()
            ended.wait(0.01)
    elif kind == 2:
        with socket.create_connection(("127.0.0.1", world.port)) as opened:
            opened.sendall(b"\x01")
            ended.wait(0.1)
    elif kind == 3:
        with Client(world.port, user="hog") as client:
            client.until_ended(client.execute(client.open(), "SELECT * FROM range(100000)").operationHandle)
            ended.wait(1)
    elif kind == 4:
        with Client(world.port, user="hog") as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            operation = client.execute(client.open(), "SELECT * FROM range(200000)").operationHandle
            client.until_ended(operation)
            client.fetch(operation, 1)
            ended.wait(2)
    else:
        with socket.create_connection(("127.0.0.1", world.port)) as opened:
            opened.sendall(b"POST /cliservice HTTP/1.1\r\n" + b"X: y\r\n" * 10_000)
            opened.recv(100)
