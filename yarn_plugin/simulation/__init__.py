"""A cluster in virtual time: applications, a model of YARN, outcomes. `drive/simulator.py` runs it."""
