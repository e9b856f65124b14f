"""A training script whose processes meet at MASTER_ADDR:MASTER_PORT: rank 0 adds up what all others send, each step."""

import argparse
import os
import socket
import time

from themis_agent import trial


def meet(rank, world_size):
    """Files to the other processes: rank 0 has one to each, the others one to rank 0."""
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        server = socket.create_server(address)
        return [server.accept()[0].makefile("rwb", buffering=0) for _ in range(world_size - 1)]
    while True:
        try:
            return [socket.create_connection(address).makefile("rwb", buffering=0)]
        except ConnectionRefusedError:
            time.sleep(0.1)


def main():
    given = argparse.ArgumentParser()
    given.add_argument("--rate", type=float, required=True)
    options, _ = given.parse_known_args()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    others = meet(rank, world_size)
    for step in range(1, int(os.environ["THEMIS_MAX_STEPS"]) + 1):
        if rank:
            others[0].write(b"%d\n" % rank)
            others[0].readline()
            continue
        total = sum(int(one.readline()) for one in others)
        trial.report(step, -float(total))
        for one in others:
            one.write(b"\n")
    print(options.rate)


main()
