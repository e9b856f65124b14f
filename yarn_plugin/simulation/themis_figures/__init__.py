"""The figures and tables of Themis' evaluation (thesis, chapter 3), made again from simulations."""
