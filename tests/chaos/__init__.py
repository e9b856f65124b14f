"""One cluster that breaks, in virtual time: arbiters, searches and YARN under faults that a seed draws.

`python -m tests.chaos --seeds 0-999` runs a seed after the other; a seed and a commit give the same run, to the byte of
its trace. The cores are the product's own (the arbiter's and the agent's `step`, their journals, streams, outbox and
containers); processes, disks, clocks, the network and YARN are models that fail (after TigerBeetle's VOPR). Checkers
look at the world after every step, and rare states that no seed has reached fail the run (after Antithesis's
`sometimes`).
"""
