"""The training side: hyperparameter search, bids, trials on GPUs."""
