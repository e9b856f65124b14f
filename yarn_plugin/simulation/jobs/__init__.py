"""Jobs that hold what they are given until they end: gangs of GPUs, and jobs that run on GPUs or on cores."""
