"""`qoop submit`: a job with spark-submit, its driver, and the share it registers for."""
