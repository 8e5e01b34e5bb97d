"""What all tests share: shapes switched on, lanes, the device fixture, and the verdicts
of the claims.

The pages under notebooks/ are collected in the same run; nothing here touches them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("", "book", "book/_tools", "book/_ext")  # bench, attnlib; attnbook; tools
sys.path[:0] = [str(ROOT / place) for place in PLACES]

import claims  # noqa: E402  (it stands in the folder just named)

gc.disable()  # until all is collected

SHAPES = os.environ.get("ATTNLIB_SHAPES", "1") != "0"
SHAPES = SHAPES and importlib.util.find_spec("attnlib") is not None
if SHAPES:
    import jaxtyping

    jaxtyping.install_import_hook(["attnlib", "attnbook"], "annotations.checked")

hypothesis.settings.register_profile("attnlib", deadline=None, derandomize=True)
hypothesis.settings.load_profile("attnlib")

# A file stays in one process, but tests of these share nothing, and take minutes.
APART = {f"test_{name}.py" for name in ("teeth", "teeth_pages", "site_pages")}
# In this order: the site is built from what pages leave in the cache, then comes what
# takes longest, and at the end what waits for the site.
LONG = ("colab", "teeth_pages", "teeth", "theorems", "sparse_patterns", "expressive")
ORDER = ("site", *LONG, "*", "site_pages")
CHROMIUM = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 900_000  # ms that a browser may take: only what hangs takes more
LANES = ("wide",)  # run only where -m names them
MARKERS = {
    "claim(id, role)": "this test is the check, control, counterexample or certificate "
    "of a claim of the book",
    "bad_input": "sees attnlib's own errors: the shape checker is silent meanwhile",
    "again": "calls what other tests call, or one thing a thousand times: the shape "
    "checker has seen it",
    "wide": "runs in the wide lane only, make check",
    "slow": "takes more than a few seconds",
    "cuda": "needs a GPU; never carries a verdict",
    "browser": "needs a Chromium",
    "colab": "builds an environment like Colab's",
}


def pytest_addoption(parser):
    parser.addoption(
        "--verdicts",
        metavar="PATH",
        help="write what the claim tests did to PATH, whole or not at all; what is "
        "there of claims that these files do not speak for stays",
    )
    parser.addoption(
        "--stale",
        action="store_true",
        help="with --verdicts: of the claim tests those that have not run on this code",
    )


def pytest_configure(config):
    for name, text in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {text}")
    path = config.getoption("verdicts")
    if path and not hasattr(
        config, "workerinput"
    ):  # under xdist the reports come together in the first process
        if config.option.keyword or config.option.deselect or "::" in str(config.args):
            raise pytest.UsageError(
                "--verdicts wants every claim test of a file: leave out -k, --deselect "
                "and names of tests"
            )
        config.pluginmanager.register(Verdicts(config), "verdicts")


@pytest.hookimpl(trylast=True)  # after -m has done its part
def pytest_collection_modifyitems(config, items):
    asked = set(re.findall(r"\w+", config.option.markexpr))
    stale = stale_claims(config) if config.option.stale else None
    away = [
        item
        for item in items
        if any(item.get_closest_marker(lane) and lane not in asked for lane in LANES)
        or (stale is not None and not stale & {name for name, _ in claim_marks(item)})
    ]
    if away:
        items[:] = [item for item in items if item not in set(away)]
        config.hook.pytest_deselected(items=away)
    items.sort(key=turn)
    for item in items:
        item.user_properties += [("claim", mark) for mark in claim_marks(item)]


def pytest_collection_finish(session):
    """What has been collected stays to the end: it is not looked through for garbage,
    not even while it is made.
    """
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """While a test marked bad_input runs, the shape checker is silent: otherwise it
    would speak first. In one marked again it would take half of the time for nothing.
    """
    marks = map(item.get_closest_marker, ("bad_input", "again"))
    silent = SHAPES and any(marks)
    if silent:
        jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return (yield)
    finally:
        if silent:
            jaxtyping.config.update("jaxtyping_disable", False)


def turn(item) -> int:
    """Pages first, then files in their order."""
    if item.path.suffix == ".ipynb":
        return -1
    name = item.path.stem.removeprefix("test_")
    return ORDER.index(name if name in ORDER else "*")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With --dist loadfile a file goes to one process, and each test of those APART."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return nodeid if Path(file).name in APART else file

    return Files(config, log) if config.option.dist == "loadfile" else None


def claim_marks(item) -> list[list[str]]:
    """[id, role] of each claim that a test speaks for. Verdicts come from the CPU: a
    cuda variant speaks for none.
    """
    marks = []
    for mark in item.iter_markers("claim"):
        role = mark.kwargs.get("role")
        if (
            len(mark.args) != 1
            or set(mark.kwargs) != {"role"}
            or role not in claims.ROLES
        ):
            raise pytest.UsageError(
                f"{item.nodeid}: claim(id, role=...) with role one of "
                f"{', '.join(claims.ROLES)}"
            )
        marks.append([mark.args[0], role])
    return [] if item.get_closest_marker("cuda") else marks


def stale_claims(config) -> set[str]:
    return claims.stale(claims.read_verdicts(config.option.verdicts), claims.keys(ROOT))


class Verdicts:
    """Gathers what the claim tests did. pytest reports a test in up to three phases:
    the worst one counts.
    """

    def __init__(self, config):
        self.path, self.results = config.option.verdicts, {}
        self.keys = claims.keys(ROOT)
        asked = [Path(config.invocation_params.dir, arg) for arg in config.args]
        self.mine = {
            name
            for name, files in claims.tests_of(ROOT).items()
            if all({file, *file.parents} & set(asked) for file in files)
        }
        if config.option.stale:
            self.mine &= stale_claims(config)
        self.crashed, self.refusal = "", ""

    def pytest_runtest_logreport(self, report):
        if report.when not in ("setup", "call", "teardown"):
            self.crashed = report.nodeid  # a worker died, and took the marks with it
        for name, role in (
            mark for kind, mark in report.user_properties if kind == "claim"
        ):
            outcomes = self.results.setdefault(name, {}).setdefault(role, {})
            outcomes[report.nodeid] = worse(
                outcomes.get(report.nodeid), phase_outcome(report)
            )

    def pytest_sessionfinish(self, session, exitstatus):
        self.refusal = self.why_not(session, exitstatus)
        if not self.refusal:
            before = claims.read_verdicts(self.path)
            claims.write_verdicts(
                self.path,
                self.merged(before.get("keys", {}), self.keys),
                self.merged(before.get("results", {}), self.results),
            )

    def merged(self, before: dict, ours: dict) -> dict:
        """What is known of other claims, and what is now known of these."""
        others = self.keys.keys() - self.mine
        kept = {name: before[name] for name in others & before.keys()}
        return kept | {name: ours[name] for name in self.mine & ours.keys()}

    def why_not(self, session, exitstatus) -> str:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return "the run did not come to its end"
        if session.shouldstop or session.shouldfail:
            return "the run was stopped early"
        if self.crashed:
            return f"a process died in {self.crashed}"
        if claims.keys(ROOT) != self.keys:
            return "files changed while the tests ran"
        return ""

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.write_line(
            f"verdicts: nothing written, {self.refusal}"
            if self.refusal
            else f"verdicts: {self.path}"
        )


def phase_outcome(report) -> str:
    """passed, failed, skipped; or xfailed, xpassed for a test that was expected to
    fail, which proves nothing.
    """
    if hasattr(report, "wasxfail"):
        return "xpassed" if report.passed else "xfailed"
    return report.outcome


def worse(one: str | None, other: str) -> str:
    rank = ("passed", "xpassed", "xfailed", "skipped", "failed")
    return max(one or "passed", other, key=rank.index)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    """Each device in turn; a machine without a GPU skips that half and says so."""
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    return torch.device(request.param)


def patient(make):
    """The same, for a page or a context that waits as long as a busy machine needs."""

    def made(**options):
        new = make(**options)
        new.set_default_timeout(PATIENCE)
        return new

    return made


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium. Where there is none the tests are skipped; on CI that is a
    failure.
    """
    path = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        None,
    )
    if path is None:
        message = "no Chromium here: the pages were not looked at in a browser"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=CHROMIUM, timeout=PATIENCE
        )
        for name in ("new_context", "new_page"):
            setattr(browser, name, patient(getattr(browser, name)))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def built(tmp_path_factory, request):
    """The book, built once for all tests and processes: what the command said, and the
    folder of the site.
    """
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if hasattr(request.config, "workerinput") else base) / "book"
    said = out / "said.txt"
    with filelock.FileLock(f"{out}.lock"):
        if not said.exists():
            command = [sys.executable, "book/_tools/build.py", "--no-verdicts", "--out"]
            done = subprocess.run(
                [*command, out], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said.write_text(done.stdout)
    return said.read_text(), out


@pytest.fixture(scope="session")
def site(built):
    return built[1] / "_build" / "html"


@pytest.fixture(scope="session")
def address(site):
    """Where the site is shown to a browser."""
    from pdf import serving

    with serving(site) as base:
        yield base
