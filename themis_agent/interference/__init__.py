"""How much kinds of training slow each other down on one GPU, measured by running them (docs/sharing.md)."""
