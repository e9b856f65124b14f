"""Random queries over random tables under random settings: qoop, switching after every stage, against plain Spark."""
