"""A search on one machine, without YARN: launchers are its processes; the GPUs are held from begin to end."""
