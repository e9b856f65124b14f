"""Hyperparameter searches: which trials live, and how long. Pure.

    search = successive_halving(trials, iterations=(8, 16, 36))      # or hyperband, asha, population, ...
    search, decisions = search.take(Report("trial-7", iteration=8, loss=0.31))
    work = search.work()                                             # what bids are made from

A search is an immutable value (`tuner.Search`); `tuner.Tuner` is the protocol that any other tuner can speak.
"""

from themis_agent.search.asha import Asha, asha
from themis_agent.search.curve_stopping import CurveStopping, curve_stopping
from themis_agent.search.halving import Halving, iterations_of_budget, rungs, successive_halving
from themis_agent.search.hyperband import Hyperband, bracket_sizes, hyperband
from themis_agent.search.population import Population, generations, population, replaced_of
from themis_agent.search.to_the_end import ToTheEnd, to_the_end
from themis_agent.search.trials import Decision, Failed, Ranking, Report, Trial
from themis_agent.search.tuner import Search, SearchTuner, Tuner
from themis_agent.search.work import Bracket, Phase, Work, plain, single_job

__all__ = [
    "Asha",
    "Bracket",
    "CurveStopping",
    "Decision",
    "Failed",
    "Halving",
    "Hyperband",
    "Phase",
    "Population",
    "Ranking",
    "Report",
    "Search",
    "SearchTuner",
    "ToTheEnd",
    "Trial",
    "Tuner",
    "Work",
    "asha",
    "bracket_sizes",
    "curve_stopping",
    "generations",
    "hyperband",
    "iterations_of_budget",
    "plain",
    "population",
    "replaced_of",
    "rungs",
    "single_job",
    "successive_halving",
    "to_the_end",
]
