"""What the book claims, as functions: a module a page, a function a claim.

    from attnbook import theorems
    theorems.paths.decomposition(x, layers)

What is claimed stands in its box on the page. The function measures it: its arguments
are the objects that the statement speaks of, and it returns a Verdict, what was
measured, what is allowed, and whether it held. So anyone can run a theorem on a network
of their own.

Beside each function stand the cases that the tests run it on, and what must fail on the
first of them: broken twins, which make one mistake, and controls, in whose objects one
hypothesis does not hold. A twin can be run too, on any objects:

    theorems.paths.decomposition.broken("same order", x, layers)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from attnlib._require import finite, is_a, is_tensor, numbers, one_of, require
from attnlib.certify import Verdict

__all__ = [
    "THEOREMS",
    "Case",
    "Theorem",
    "bits_of_a_tile",
    "boltzmann_and_hardmax",
    "cache",
    "check",
    "claim",
    "complexity_table",
    "contextual_mapping",
    "copying_task",
    "escaping_collapse",
    "five_theorems_one_matrix",
    "four_questions",
    "from_integers_to_softmax",
    "layers_or_steps",
    "logarithmic_dimension",
    "memorization",
    "path_efficacy",
    "paths",
    "patterns_and_conditions",
    "price_of_dimension",
    "random_projections",
    "rank_collapse",
    "reviewers_questions",
    "sharpness",
    "spectra_and_linformer",
    "table",
    "the_proof_executed",
    "what_is_enough",
]


@dataclass(frozen=True)
class Case:
    """One call of a theorem, not yet made.

    Args:
        make: returns the objects of the theorem, as a dictionary of its arguments.
        made_with: the arguments of `make`.
        called_with: what the theorem is told beside the objects.
    """

    make: Callable[..., dict]
    made_with: dict = field(default_factory=dict)
    called_with: dict = field(default_factory=dict)

    def but(self, **changes) -> Case:
        """The same case with other arguments, of `make` or of the theorem."""
        of_make = inspect.signature(self.make).parameters
        made_with = dict(self.made_with)
        called_with = dict(self.called_with)
        for name, value in changes.items():
            if name in of_make:
                made_with[name] = value
            else:
                called_with[name] = value
        return Case(self.make, made_with, called_with)

    def run(self, theorem: Callable[..., Verdict]) -> Verdict:
        """What the theorem says here."""
        objects = self.make(**self.made_with)
        return theorem(**(objects | self.called_with))

    def differences(self, other: Case) -> set[str]:
        """Names of the arguments in which two cases differ."""
        mine = self.made_with | self.called_with
        theirs = other.made_with | other.called_with
        names = mine.keys() | theirs.keys()
        return {n for n in names if not _same(mine.get(n, ...), theirs.get(n, ...))}

    def __str__(self) -> str:
        words = [f"{k}={_short(v)}" for k, v in self.made_with.items()]
        words += [f"{k}={_short(v)}" for k, v in self.called_with.items()]
        return ", ".join(words) or "as it stands"


def _same(one, other) -> bool:
    """Equal, or the same object: tensors have no truth value of their own."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):
        return False


def _short(value) -> str:
    return getattr(value, "__name__", repr(value))


@dataclass(frozen=True)
class Theorem:
    """A claim, the function that stands for it, and what the function is tried on.

    Args:
        claim: the id in book/claims.toml.
        function: the objects of the claim -> Verdict.
        cases: calls on which it must hold.
        controls: calls on which it must fail; each differs from the first case in one
            argument, and so breaks one hypothesis.
        broken: by its name, a mistake that the function can be told to make, and must
            then fail on the first case.

    Raises:
        ValueError: if there is no case, or nothing that must fail, or a control changes
            nothing or two things at once.
    """

    claim: str
    function: Callable[..., Verdict]
    cases: Sequence[Case]
    controls: Sequence[Case] = ()
    broken: Mapping[str, dict] = field(default_factory=dict)

    def __post_init__(self):
        if not self.cases:
            raise ValueError(f"claim {self.claim}: it has no cases")
        if not self.controls and not self.broken:
            raise ValueError(f"claim {self.claim}: it has nothing that must fail")
        takes = inspect.signature(self.function).parameters
        for case in (*self.cases, *self.controls):
            unknown = sorted(set(case.called_with) - set(takes))
            if unknown:
                raise ValueError(
                    f"claim {self.claim}: {self.function.__name__} has no argument "
                    f"{', '.join(unknown)}"
                )
        for control in self.controls:
            first = self.cases[0]
            changed = control.differences(first)
            if control.make is not first.make:
                raise ValueError(
                    f"claim {self.claim}: a control is made as the first case is, by "
                    f"{first.make.__name__}; write FIRST_CASE.but(argument=...)"
                )
            if len(changed) != 1:
                raise ValueError(
                    f"claim {self.claim}: a control changes one argument of the first "
                    f"case, this one changes {sorted(changed) or 'none'}"
                )

    def runs(self, role: str) -> Iterator[tuple[str, Callable[[], Verdict]]]:
        """(words, call) of each run in a role, check or control."""
        one_of(("check", "control"), role=role)
        for case in self.cases if role == "check" else self.controls:
            yield str(case), lambda case=case: case.run(self.function)
        if role == "control":
            for words in self.broken:
                twin = functools.partial(self.function.broken, words)
                yield words, lambda twin=twin: self.cases[0].run(twin)

    def __str__(self) -> str:
        room = self.function.__module__.removeprefix("attnbook.")
        failing = len(self.controls) + len(self.broken)
        tried = f"{len(self.cases)} cases, {failing} controls"
        return f"{self.claim:24} {room}.{self.function.__name__:24} {tried}"


THEOREMS: dict[str, Theorem] = {}


def claim(
    name: str,
    *,
    cases: Sequence[Case],
    controls: Sequence[Case] = (),
    broken: Mapping[str, dict] | None = None,
    masked: Sequence[str] = (),
    without_kernel: str = "",
) -> Callable[[Callable], Callable]:
    """Decorator: the function below it stands for the claim of this id.

        THREE = Case(head_counts, {"heads": (3, 3, 3)})

        @claim("my.lengths", cases=[THREE], controls=[THREE.but(heads=(2, 3, 4))],
               broken={"no skips": {"_skip": False}})
        def lengths(heads, *, _skip=True):
            ...

    `head_counts(heads=(3, 3, 3))` returns {"heads": (3, 3, 3)}, and the theorem is
    called with it: lengths(heads=(3, 3, 3)). An argument whose name begins with an
    underscore is no reader's: it says which mistake to make, and only
    `lengths.broken("no skips", heads)` sets it. That controls and broken twins fail is
    seen when tests run them.

    Args:
        name: the id in book/claims.toml.
        cases, controls, broken: as in Theorem.
        masked: arguments that may be -inf where something is left out.
        without_kernel: why the function calls no kernel of attnlib: "a count of ...".

    Returns:
        a decorator that enters the function into THEOREMS and hands it back, as one
        that refuses arguments of which nothing could be measured.

    Raises:
        ValueError: if the claim has a function already, or as Theorem.
    """

    def enter(function: Callable[..., Verdict]) -> Callable[..., Verdict]:
        if name in THEOREMS:
            raise ValueError(f"claim {name}: it has a function already")
        whole = inspect.signature(function)
        shown = [p for p in whole.parameters.values() if not p.name.startswith("_")]
        takes = whole.replace(parameters=shown)

        def run(slips: dict, *args, **kwargs) -> Verdict:
            for given, value in takes.bind(*args, **kwargs).arguments.items():
                declared = takes.parameters[given]
                _is_declared(declared, value)
                texts = isinstance(value, str) or "str" in str(declared.annotation)
                if given not in masked:
                    _measurable(given, value, texts)
            return function(*args, **kwargs, **slips)

        @functools.wraps(function)
        def asked(*args, **kwargs) -> Verdict:
            return run({}, *args, **kwargs)

        def twin(words: str, *args, **kwargs) -> Verdict:
            """The function with one of its mistakes, by name."""
            one_of(mistakes, words=words)
            return run(mistakes[words], *args, **kwargs)

        mistakes = broken or {}
        hidden = whole.parameters.keys() - takes.parameters.keys()
        for words, slips in mistakes.items():
            if not slips or not slips.keys() <= hidden:
                raise ValueError(f"claim {name}: {words!r} sets {sorted(slips)}")
        asked.__signature__ = takes
        asked.broken = twin
        asked.without_kernel = without_kernel
        THEOREMS[name] = Theorem(name, asked, cases, controls, mistakes)
        return asked

    return enter


def _is_declared(declared: inspect.Parameter, value) -> None:
    """An argument is what its annotation says, as far as that is seen at a glance. A
    switch is true or false: "no" would be taken for true.
    """
    name, kind = declared.name, str(declared.annotation)
    if value is declared.default:
        return
    if isinstance(declared.default, bool) or "bool" in kind:
        is_a(bool, **{name: value})
    elif kind == "Tensor":
        is_tensor(name, value)
    elif kind == "float":
        numbers(**{name: value})
    words = isinstance(declared.default, str) or "str" in kind or "Literal" in kind
    require(words or not isinstance(value, str), f"{name} must be no text: {value!r}")
    require("None" in kind or value is not None, f"{name} must not be None")


def _measurable(name: str, value, texts: bool) -> None:
    """An argument is not empty, its numbers are finite, and none is a text unless texts
    are wanted: of nothing and of NaN all would be true.
    """
    is_text = isinstance(value, str)
    require(texts or not is_text, f"{name} must be no text, got {value!r}")
    if torch.is_tensor(value):
        is_tensor(name, value)
        finite(**{name: value})
    elif isinstance(value, float):
        numbers(**{name: value})
    elif isinstance(value, list | tuple):
        require(len(value) > 0, f"{name} must hold at least one entry, got {value!r}")
        for number, part in enumerate(value):
            _measurable(f"{name}[{number}]", part, texts)


def check(name: str) -> Verdict:
    """A claim on all of its cases; controls are left to the tests.

    Args:
        name: the id in book/claims.toml.

    Returns:
        the first Verdict that fails, or else that of the last case.

    Raises:
        ValueError: for a claim that has no function here.
    """
    if name not in THEOREMS:
        raise ValueError(f"no function stands for {name!r}; see theorems.table()")
    for _, run in THEOREMS[name].runs("check"):
        verdict = run()
        if not verdict.ok:
            return verdict
    return verdict


def table() -> str:
    """Which function stands for which claim, a line each."""
    return "\n".join(str(theorem) for theorem in THEOREMS.values())


from attnbook.theorems import (  # noqa: E402  (a page's module enters its claims)
    bits_of_a_tile,
    boltzmann_and_hardmax,
    cache,
    complexity_table,
    contextual_mapping,
    copying_task,
    escaping_collapse,
    five_theorems_one_matrix,
    four_questions,
    from_integers_to_softmax,
    layers_or_steps,
    logarithmic_dimension,
    memorization,
    path_efficacy,
    paths,
    patterns_and_conditions,
    price_of_dimension,
    random_projections,
    rank_collapse,
    reviewers_questions,
    sharpness,
    spectra_and_linformer,
    the_proof_executed,
    what_is_enough,
)
