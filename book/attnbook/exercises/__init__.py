"""Checks of the exercises, a module a page, and the one decorator that they share.

A checker is a generator. It yields a `Case` for each instance on which it looks at the
answer; where nothing can be compared, it yields a sentence. The first sentence other
than "Right." is said, and what stands below it is not run::

    @exercise("Not yet: how often do two people shake hands, how often three?")
    def handshakes(answer):
        '''Exercise 0.1: how often do four people shake hands, each with each?'''
        yield Case(answer, 6, {"You counted every handshake twice.": 12})
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from numbers import Number, Rational

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "boltzmann",
    "cache",
    "codes",
    "collapse",
    "complexity",
    "copying",
    "efficacy",
    "escaping",
    "expressive",
    "hops",
    "ids",
    "lowrank",
    "memorization",
    "paths",
    "patterns",
    "projections",
    "questions",
    "reviewers",
    "sharpness",
    "synthesis",
    "tile",
    "universal",
    "your_model",
]
NOT_TRIED = "Not tried yet: put your answer in place of None."
RIGHT = "Right."
# The one tolerance: half a unit in the third significant digit, so that a number that
# is rounded to three digits is right. Whole numbers, fractions and sets are exact.
CLOSE = 0.5e-2


def __getattr__(name: str):
    """A module of exercises is imported when it is first asked for."""
    if name in __all__:
        return import_module(f"attnbook.exercises.{name}")
    raise AttributeError(f"module 'attnbook.exercises' has no name {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def exercise(otherwise: str = "", *, function_of: str = "", errors: dict | None = None):
    """Turns a generator of cases into a checker: any answer in, one sentence out.

    `otherwise` is said of a wrong answer that no known mistake explains. If the answer
    is a function, `function_of` names its parameters, and `errors` may say which
    mistake stands behind which exception.
    """

    def decorate(cases: Callable) -> Callable:
        @functools.wraps(cases)
        def check(answer):
            if answer is None:
                return NOT_TRIED
            try:
                if function_of:
                    answer = _guarded(answer, function_of, errors or {})
                sentences = (_sentence(case, otherwise) for case in cases(answer))
                return next((s for s in sentences if s != RIGHT), RIGHT)
            except Objection as objection:
                return str(objection)

        return check

    return decorate


@dataclass(frozen=True)
class Case:
    """What an answer gives on one instance, beside what is right and what known
    mistakes give.

    What is right also says which form is wanted: a whole number, a number, a truth
    value, a tensor, a set, or a list of these. A wrong value that no mistake explains
    is answered by `otherwise`, a sentence or one for each item of a list.
    """

    given: object
    right: object
    mistakes: dict[str, object] = field(default_factory=dict)
    otherwise: str | list[str] = ""

    def sentence(self) -> str:
        """What is nearest to the given value, if anything is near; else `otherwise`."""
        candidates = {RIGHT: self.right, **self.mistakes}
        distances = {s: _distance(self.given, v) for s, v in candidates.items()}
        nearest = min(distances, key=distances.get)
        if distances[nearest] <= CLOSE:
            return nearest
        given = fit(self.given, self.right)
        if isinstance(self.otherwise, str):
            return self.otherwise
        hints = zip(given, self.right, self.otherwise)
        return next(hint for g, r, hint in hints if _distance(g, r) > CLOSE)


class Objection(Exception):
    """A sentence that ends a check, because there is nothing to compare."""


def fit(given: object, wanted: object):
    """What is given, in the form of what is wanted; if it has another, an objection."""
    if isinstance(wanted, Tensor):
        return tensor(given, wanted.shape, wanted.dtype)
    if isinstance(wanted, list | tuple):
        return [fit(g, w) for g, w in zip(items(given, len(wanted)), wanted)]
    if isinstance(wanted, set):
        return members(given)
    if isinstance(wanted, bool):
        return truth(given)
    value = number(given)
    if isinstance(wanted, int) and value != math.floor(value):
        raise Objection(f"A whole number was wanted; yours is {value}.")
    return value if isinstance(wanted, Rational) else float(value)


def number(given: object):
    """One finite number; whole numbers and fractions stay exact, others are floats."""
    given = _only_entry(given)
    if isinstance(given, bool | np.bool_ | str | bytes):
        raise _wrong("A number", given)
    try:
        value = float(given)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise _wrong("A number", given) from None
    if not math.isfinite(value):
        raise Objection(f"A finite number was wanted; yours is {value}.")
    return given if isinstance(given, Rational) else value


def truth(given: object) -> bool:
    """True or False, also as a tensor or an array of one entry."""
    given = _only_entry(given)
    if not isinstance(given, bool | np.bool_):
        raise _wrong("True or False", given)
    return bool(given)


def items(given: object, count: int | None = None) -> list:
    """The items of a list, a tuple, an array or a tensor, as many as are wanted."""
    names = {None: "A list", 2: "A pair"}
    wanted = names.get(count, f"A list of length {count}")
    found = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
    if not isinstance(found, list | tuple):
        raise _wrong(wanted, given)
    if count not in (None, len(found)):
        raise _wrong(wanted, given)
    return list(found)


def members(given: object) -> set:
    """The members of a set, which may also be given as a list."""
    found = given if isinstance(given, set | frozenset) else items(given)
    try:
        return set(found)
    except TypeError:
        raise _wrong("A set", given) from None


def tensor(given: object, shape: tuple[int, ...], dtype=None) -> Tensor:
    """A finite tensor of this shape, also from an array or a list; and of this dtype,
    if one is named.
    """
    wanted = f"A tensor of shape {tuple(shape)}"
    try:
        values = _values(given)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise _wrong(wanted, given) from None
    if values.shape != shape:
        raise _wrong(wanted, values if isinstance(given, list | tuple) else given)
    if hasattr(given, "dtype") and dtype not in (None, values.dtype):
        raise Objection(f"The dtype {dtype} was wanted; yours is {values.dtype}.")
    if not values.isfinite().all():
        raise Objection("Finite numbers were wanted; yours hold NaN or infinity.")
    return values.to(dtype or torch.float64)


def described(given: object) -> str:
    """What somebody gave, in a few words."""
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}"
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if isinstance(given, str):
        return f"the text {given[:20]!r}"
    if isinstance(given, int) and abs(given) > 10**15:
        return "too large to read"
    if given is None or isinstance(given, Number):
        return str(given)
    if isinstance(given, list | tuple | set | frozenset | dict):
        return f"a {type(given).__name__} of length {len(given)}"
    if callable(given):
        return "a function"
    return f"of type {type(given).__name__}"


def _wrong(wanted: str, given: object) -> Objection:
    return Objection(f"{wanted} was wanted; yours is {described(given)}.")


def _sentence(case: Case | str, otherwise: str) -> str:
    """What is said of a case; a sentence says itself."""
    return case if isinstance(case, str) else case.sentence() or otherwise


def _only_entry(given: object):
    """What a tensor or an array of one entry holds; everything else as it is."""
    if isinstance(given, Tensor | np.ndarray) and math.prod(given.shape) == 1:
        return given.item()
    return given


def _values(given: object) -> Tensor:
    if isinstance(given, Tensor):
        return given.detach().cpu().to_dense()
    if isinstance(given, np.ndarray):
        return torch.from_numpy(np.array(given, order="C"))
    return torch.from_numpy(np.array(given, dtype=float))


def _distance(given: object, value: object) -> float:
    """How far something is from a value, in units of the value's leading digit."""
    try:
        return _apart(fit(given, value), value)
    except Objection:
        return math.inf


def _apart(given: object, value: object) -> float:
    if isinstance(value, list | tuple):
        return max(map(_apart, given, value), default=0.0)
    if isinstance(value, set | Rational):
        return 0.0 if given == value else math.inf
    given = torch.as_tensor(given, dtype=torch.float64)
    value = torch.as_tensor(value, dtype=torch.float64)
    size = max(float(value.abs().max()), 1e-9)
    unit = 10 ** math.floor(math.log10(size))
    return float((given - value).abs().max()) / unit


def _guarded(answer: object, parameters: str, errors: dict) -> Callable:
    """The function that was asked for, on copies of its arguments; whatever goes wrong
    in it becomes an objection.
    """
    wanted = f"A function of ({parameters})"
    if not callable(answer):
        raise _wrong(f"{wanted}, by its name, without a call,", answer)

    def call(*arguments):
        if not _takes(answer, arguments):
            own = inspect.signature(answer)
            raise Objection(f"{wanted} was wanted; yours takes {own}.")
        try:
            result = answer(*copy.deepcopy(arguments))
        except Exception as error:
            raise Objection(_stop(error, arguments, errors)) from None
        if result is None:
            raise Objection("Your function returned None: is a return missing?")
        return result

    return call


def _takes(function: Callable, arguments: tuple) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True  # some built-in functions do not tell
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _stop(error: Exception, arguments: tuple, errors: dict) -> str:
    """Why a function stopped: a known mistake, or the first line of its exception."""
    for kind, sentence in errors.items():
        if isinstance(error, kind):
            return sentence
    shown = ", ".join(map(repr, arguments))
    place = f" on {shown}" if len(shown) <= 50 else ""
    reason = (str(error).splitlines() or [""])[0]
    text = f"{type(error).__name__}: {reason}".strip(" .:")
    return f"Your function stops{place} with {text}."
