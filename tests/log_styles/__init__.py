"""Logs of training scripts, made by running libraries on tiny data, with the truth written beside them by callbacks.

    python -m tests.log_styles [STYLE...]      # writes logs/STYLE.log and logs/STYLE.json again

needs the libraries (Keras on JAX, Lightning, Transformers, fastai, XGBoost, LightGBM, CatBoost, scikit-learn, tqdm,
rich, loguru, structlog), which the tests of this repository do not: `tests/unit/test_log_styles.py` reads the files.
"""
