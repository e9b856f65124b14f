"""The second part of the demo: three hyperparameter searches that lease GPUs, with a query beside them."""
