"""A cluster in virtual time: applications, a YARN, and what came of them. `drive/simulator.py` runs it."""
