"""Training applications in virtual time: their jobs on leased GPUs, what the simulator measures, and its page."""
