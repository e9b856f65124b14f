"""`qoop submit`: registration with the arbiter, spark-submit, and the driver that it runs.

`driver.py` is run by path, so this folder is on the driver's sys.path: no module here may have the name of one of the
standard library.
"""
