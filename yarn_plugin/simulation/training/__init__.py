"""Training workloads and GPU clusters of the simulator: files of several formats, presets and a generator."""
