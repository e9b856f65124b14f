"""YARN's queue configuration as a typed file: read, compared with the live ResourceManager, written, read back."""
