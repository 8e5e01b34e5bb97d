"""Checks of the exercises, a module a chapter: each says "not tried yet" on None and
names a likely mistake.
"""

from attnlib.exercises import (
    boltzmann,
    codes,
    collapse,
    complexity,
    copying,
    efficacy,
    escaping,
    expressive,
    ids,
    lowrank,
    memorization,
    paths,
    patterns,
    projections,
    questions,
    reviewers,
    synthesis,
    universal,
)

__all__ = [
    "boltzmann",
    "codes",
    "collapse",
    "complexity",
    "copying",
    "efficacy",
    "escaping",
    "expressive",
    "ids",
    "lowrank",
    "memorization",
    "paths",
    "patterns",
    "projections",
    "questions",
    "reviewers",
    "synthesis",
    "universal",
]
