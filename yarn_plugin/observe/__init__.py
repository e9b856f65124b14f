"""The ResourceManager's REST, translated into events."""
