"""An application master in Python: Hadoop's own clients in a small JVM, through py4j."""
