"""The replanning decision (keep the plan or switch), and the state machine of a query's stages. Pure."""
