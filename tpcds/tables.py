"""The 24 tables of TPC-DS."""

# Large tables first: a progress bar then slows down at its beginning, not at its end.
TABLES = (
    "store_sales",
    "catalog_sales",
    "web_sales",
    "inventory",
    "store_returns",
    "catalog_returns",
    "web_returns",
    "customer_demographics",
    "customer",
    "customer_address",
    "date_dim",
    "time_dim",
    "item",
    "catalog_page",
    "household_demographics",
    "call_center",
    "income_band",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "warehouse",
    "web_page",
    "web_site",
)
