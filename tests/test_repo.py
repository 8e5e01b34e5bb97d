"""The repository itself: one address, one version, sound workflows, commands that fail
in one clear line.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import address
import env
import pytest
import release
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "book" / "_tools"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = [
    "help",
    "env",
    "book",
    "pdf",
    "lint",
    "test",
    "check",
    "proofs",
    "bench",
    "release",
    "serve",
    "clean",
]
ALONE = {"help", "env", "clean"}  # these need no environment, or make it
PACKAGES = {"attnlib": "attnlib", "attnbook": "book/attnbook"}  # name: folder
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
# joined with a name only while a test runs: text that the address tool reads stays free
# of it
HERE = "://github.com/"


def run(*command, cwd=ROOT, **variables):
    """A command's exit code, stdout and stderr; a make that runs these tests is hidden
    from a make that they run.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def citation() -> dict:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


# --- the address ---


def test_an_address_can_be_set_and_set_back(tmp_path):
    before = {p.relative_to(ROOT): text for p, text in address.text_files()}
    for name, text in before.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    neighbour = "https" + HERE + "/".join(address.current()) + "-old\n"
    (tmp_path / "neighbour.md").write_text(neighbour)
    first, other = "/".join(address.current()), "someone-else/another.book"
    changed = address.set_address(other, tmp_path)
    pages = [path for path in changed if path.suffix == ".ipynb"]
    assert len(pages) == len(list((ROOT / "notebooks").rglob("*.ipynb")))
    assert address.site_url(tmp_path).endswith("//someone-else.github.io/another.book/")
    left = [path for path, text in address.text_files(tmp_path) if HERE + first in text]
    assert left == [tmp_path / "neighbour.md"]
    address.set_address(first, tmp_path)
    assert {n: (tmp_path / n).read_bytes().decode() for n in before} == before


@pytest.mark.parametrize(
    "slug", ["", "book", "a/b/c", "a b/c", "-a/b", "a/..", "a/b.git", "a/a.github.io"]
)
def test_a_bad_address_is_refused(slug):
    with pytest.raises(ValueError, match="is no address: give OWNER/REPO"):
        address.parse(slug)


def test_the_published_address_must_be_the_expected_one(capsys):
    assert address.main(["check", "/".join(address.current())]) == 0
    assert address.main(["check", "someone/else"]) == 1
    assert "address.py set someone/else" in capsys.readouterr().err


# --- versions, citation, licences ---


def test_one_version_everywhere():
    import attnlib

    log = re.search(
        r"^## \[?v?(\d+\.\d+\.\d+)",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.M,
    )
    assert {
        "attnlib": attnlib.__version__,
        "installed": importlib.metadata.version("attnlib"),
        "CITATION.cff": str(citation()["version"]),
        "CHANGELOG.md": log and log[1],
    } == dict.fromkeys(
        ("attnlib", "installed", "CITATION.cff", "CHANGELOG.md"), PROJECT["version"]
    )


def test_the_citation_is_that_of_this_book():
    book = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    assert citation()["title"] == book["title"]
    assert citation()["url"] == address.site_url()
    assert citation()["repository-code"] == address.repository_url()
    assert citation()["license"] == PROJECT["license"] == "MIT"
    assert [author["name"] for author in citation()["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    assert book["author"] == PROJECT["authors"][0]["name"]


def is_valid(schema: str, path: Path) -> bool:
    """By a schema that is shipped with the checker: no network."""
    words = ["--builtin-schema", f"vendor.{schema}", path]
    return run(sys.executable, "-m", "check_jsonschema", *words)[0] == 0


def test_the_citation_file_is_valid(tmp_path):
    assert is_valid("citation-file-format", ROOT / "CITATION.cff")
    broken = tmp_path / "CITATION.cff"
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    broken.write_text(text.replace("authors:", "writers:"), encoding="utf-8")
    assert not is_valid("citation-file-format", broken)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LICENSE", ["MIT License", "The attnlib contributors"]),
        ("LICENSE-TEXT", ["Attribution 4.0 International"]),
        ("book/_static/mathjax/LICENSE", ["Apache License"]),
    ],
)
def test_licences_are_there(name, words):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [word for word in words if word not in text] == []


# --- the environment ---


def pins(level: str = "test") -> dict[str, str]:
    """What a level of the environment pins, with what the levels before it do."""
    text = (ROOT / env.requirements(level)).read_text(encoding="utf-8")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    *before, _ = env.upto(level)
    if before:
        assert lines.pop(0) == f"-r {env.requirements(before[-1])}"
    else:
        assert lines.pop() == "-e ."
    wrong = [
        line
        for line in lines
        if not re.fullmatch(r"[\w.-]+==[\w.]+(; sys_platform != \"win32\")?", line)
    ]
    assert not wrong, f"not pinned exactly: {wrong}"
    here = dict(line.split(";")[0].split("==") for line in lines)
    return (pins(before[-1]) if before else {}) | here


def needed(wanted: set[str]) -> set[str]:
    """These packages, and what they need in turn, here."""
    found, new = set(), {canonicalize_name(name) for name in wanted}
    while new:
        found |= new
        lines = [importlib.metadata.requires(name) or [] for name in new]
        asked = [Requirement(line) for line in sum(lines, [])]
        new = {
            canonicalize_name(each.name)
            for each in asked
            if each.marker is None or each.marker.evaluate({"extra": ""})
        } - found
    return found


@pytest.mark.parametrize("level", env.LEVELS)
def test_a_level_pins_all_that_it_needs(level):
    """The CUDA build of torch brings packages that no other has."""
    pinned = {canonicalize_name(name) for name in pins(level)}
    lacking = needed(pinned) - pinned
    assert not {name for name in lacking if not name.startswith(("nvidia", "cuda"))} - {
        "triton"
    }


def test_who_builds_the_book_installs_no_more():
    assert not {"playwright", "pikepdf", "transformers", "ruff"} & set(pins("book"))


def test_what_is_installed_is_what_is_pinned():
    installed = {
        name: importlib.metadata.version(name).split("+")[0] for name in pins()
    }  # "+cpu" is the same torch
    assert installed == pins()


def test_the_installed_packages_fit_each_other():
    code, out, err = run(sys.executable, "-m", "pip", "check")
    assert code == 0, out + err


def test_nbval_is_not_disarmed():
    assert "nbstripout" not in pins()


def test_the_library_asks_for_lower_bounds_only():
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {"book", "checkpoints", "bench", "test"}
    for wanted in PROJECT["dependencies"] + sum(extras.values(), []):
        assert re.fullmatch(r"[\w.-]+>=[\d.]+", wanted), wanted


def env_main(patch: str, root: Path, call="'book'", **variables):
    """Run env.py on a folder, after a line that changes its world."""
    lines = [
        "import sys",
        f"sys.path.insert(0, {str(TOOLS)!r})",
        "import env",
        patch,
        f"sys.exit(env.main({call}, root={str(root)!r}))",
    ]
    return run(sys.executable, "-c", "\n".join(lines), **variables)


@pytest.fixture
def bare(tmp_path):
    """A folder with a requirement and nothing installed."""
    for level in env.LEVELS:
        text = f"attnlib-needs-this==1.0  # {level}\n"
        (tmp_path / env.requirements(level)).write_text(text)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


TROUBLES = {
    "old Python": (
        "sys.version_info = (3, 9, 2, 'final', 0)",
        "Python 3.11 or newer is needed",
    ),
    "no venv": (
        "import importlib.util; importlib.util.find_spec = lambda name: None",
        "has no module 'venv'",
    ),
}


@pytest.mark.parametrize("case", TROUBLES)
def test_trouble_is_one_clear_line(bare, case):
    patch, words = TROUBLES[case]
    code, _, err = env_main(patch, bare)
    assert code == 1
    assert (
        err.startswith("attnlib: ") and words in err and len(err.splitlines()) == 1
    ), err


@pytest.mark.wide
def test_no_network_is_one_clear_line(bare):
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_RETRIES": "1",
    }
    code, _, err = env_main(
        "", bare, **nowhere, PIP_EXTRA_INDEX_URL="", PIP_FIND_LINKS=""
    )
    assert code == 1
    assert err.startswith("attnlib: no network") and len(err.splitlines()) == 1, err
    assert (
        "Connection refused" in Path(err.split("The full log: ")[1].strip()).read_text()
    )
    assert not env.is_ready(str(bare), "book")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "ERROR: Could not install packages due to an OSError: "
            "[Errno 28] No space left on device",
            "the disk is full",
        ),
        (
            "Temporary failure in name resolution\n"
            "ERROR: No matching distribution found for torch",
            "no network",
        ),
        (
            "ERROR: Ignored\nERROR: Cannot install a and b because of a conflict.",
            "a conflict. The full log: here",
        ),
        ("", "pip failed. The full log: here"),
    ],
)
def test_what_pip_says_becomes_one_line(log, words):
    line = env.diagnose(log, "here")
    assert words in line and len(line.splitlines()) == 1


def made(root: Path, level: str, version=sys.version_info[:3]) -> None:
    """What an installation leaves: an environment, and the stamps of its levels."""
    python = Path(env.places(str(root))[1])
    python.parent.mkdir(parents=True, exist_ok=True)
    python.touch()
    text = "home = here\nversion = {}.{}.{}\n".format(*version)
    (root / ".venv" / "pyvenv.cfg").write_text(text)
    for held in env.upto(level):
        Path(env.stamp(str(root), held)).write_text(env.fingerprint(str(root), held))


def test_an_environment_that_is_ready_is_left_alone(bare):
    made(bare, "book")
    assert env_main("env.install = None", bare) == (0, "", "")
    (bare / "requirements.txt").write_text("attnlib-needs-this==2.0\n")
    assert not env.is_ready(str(bare), "book")


def test_a_level_holds_those_before_it_and_no_more(bare):
    made(bare, "pdf")
    ready = {level: env.is_ready(str(bare), level) for level in env.LEVELS}
    assert ready == {"book": True, "pdf": True, "test": False}
    (bare / env.requirements("pdf")).write_text("attnlib-needs-this==2.0\n")
    assert env.is_ready(str(bare), "book") and not env.is_ready(str(bare), "pdf")


INSTALLS = "env.install = lambda *given: print(*given[1:])"


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 1, 1), sys.version_info[:3]])
def test_a_python_that_is_named_counts_and_another_does_not(bare, version):
    made(bare, "book", version)
    other = version != sys.version_info[:3]
    named = env_main(INSTALLS, bare, "'book', True")
    assert named == (0, "book True\n" if other else "", "")
    assert env_main(INSTALLS, bare) == (0, "", "")


@pytest.mark.wide
def test_an_environment_of_another_python_is_made_anew(bare):
    """By the real installer, up to the package that does not exist."""
    kept, config = bare / ".venv" / "kept", bare / ".venv" / "pyvenv.cfg"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    assert env_main("", bare, **offline)[0] == 1  # it is there now, and sound
    kept.touch()
    assert env_main("", bare, "'book', True", **offline)[0] == 1 and kept.exists()
    config.write_text(re.sub(r"(version = ).*", r"\g<1>3.11.0", config.read_text()))
    assert env_main("", bare, **offline)[0] == 1 and kept.exists()
    assert env_main("", bare, "'book', True", **offline)[0] == 1 and not kept.exists()


def test_the_installer_parses_on_old_pythons():
    ast.parse((TOOLS / "env.py").read_text(encoding="utf-8"), feature_version=(3, 4))
    # from Python 3.12 on the line above takes f-strings, and refuses no more than this
    with pytest.raises(SyntaxError):
        ast.parse("x: int = 1", feature_version=(3, 4))
    tree = ast.parse((TOOLS / "env.py").read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]


# --- commands and workflows ---


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


needs_make = pytest.mark.skipif(
    shutil.which("make") is None,
    reason="no make here; book/how_to_run.md shows the same jobs without it",
)


@needs_make
def test_make_alone_lists_the_targets():
    code, out, err = run("make")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == TARGETS


@needs_make
@pytest.mark.parametrize("target", [t for t in TARGETS if t not in ALONE])
def test_every_target_begins_with_the_environment(target):
    code, out, err = run("make", "-n", target)
    assert code == 0, err
    assert out.index("book/_tools/env.py") < out.index(".venv/bin/python")
    scripts = re.findall(r"\.venv/bin/python (\S+\.py)", out)
    assert [script for script in scripts if not (ROOT / script).exists()] == []


@needs_make
def test_make_takes_the_first_python_that_is_new_enough(tmp_path):
    for tool in ("make", "sh", "command"):
        if shutil.which(tool):
            (tmp_path / tool).symlink_to(shutil.which(tool))
    command = ["make", "-n", "env"]
    code, out, _ = run(*command, PATH=str(tmp_path))
    assert (
        code == 0 and "python3 book/_tools/env.py" in out
    )  # none at all: env's first line says so
    code, _, err = run("make", "env", PATH=str(tmp_path))
    assert (
        code != 0
        and err.splitlines()[0] == "attnlib: no Python found; 3.11 or newer is needed"
    )
    fake(tmp_path, "python3", "exit 1")  # too old, or without venv
    fake(tmp_path, "python3.13", "exit 127")  # a shim that leads nowhere
    fake(tmp_path, "python3.12", "exit 0")
    assert "python3.12 book/_tools/env.py" in run(*command, PATH=str(tmp_path))[1]
    assert "--this-python" not in run(*command, PATH=str(tmp_path))[1]
    fake(tmp_path, "python3", "exit 0")  # what this machine calls Python comes first
    assert "python3 book/_tools/env.py" in run(*command, PATH=str(tmp_path))[1]
    named = run(*command, "PYTHON=python3.12", PATH=str(tmp_path))[1]
    assert "python3.12 book/_tools/env.py test --this-python" in named


@pytest.mark.parametrize(
    ("broken", "code"), [("none", 0), ("test", 1), ("check", 1), ("proofs", 1)]
)
def test_ci_runs_all_lanes_and_fails_if_one_does(tmp_path, broken, code):
    (tmp_path / ".ci").mkdir()
    for name in ("run", "old_processor"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci" / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    noted = 'echo "$1 $ATEN_CPU_CAPABILITY" >> lanes'
    fake(programs, "make", f'{noted}; [ "$1" != {broken} ]')
    for name in ("git", "chromium", "dpkg"):
        fake(programs, name, "exit 0")
    proofs = f'[ "$1" != proofs/check.py ] || [ {broken} != proofs ]'
    fake(programs, "python3", proofs)
    found = f"{programs}:{os.environ['PATH']}"
    # as on a new processor, also if the tests themselves run as on an old one
    done = run("bash", ".ci/run", cwd=tmp_path, PATH=found, ATEN_CPU_CAPABILITY="")
    assert done[0] == code
    old = "avx2" if "make test runs as on an old processor" in done[1] else ""
    lanes = (tmp_path / "lanes").read_text().splitlines()
    assert lanes == ["env ", f"test {old}", "check "]
    assert code == 0 or f"ci: failed: {broken}" in done[2]


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the old processor is an x86-64"
)
def test_an_old_processor_is_put_on_without_a_warning():
    """numpy warns of a feature that it does not know; a test that starts Python with
    warnings as errors would fail of it.
    """
    text = (ROOT / ".ci" / "old_processor").read_text(encoding="utf-8")
    settings = dict(line.split("=") for line in text.splitlines())
    probe = "import numpy, torch; print(torch.backends.cpu.get_cpu_capability())"
    python = [sys.executable, "-W", "error", "-c", probe]
    assert run(*python, **settings) == (0, "AVX2\n", "")
    unknown = {"NPY_DISABLE_CPU_FEATURES": "AVX512F"}
    assert run(*python, **settings | unknown)[0] == 1


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_valid(path, tmp_path):
    assert is_valid("github-workflows", path)
    broken = tmp_path / path.name
    broken.write_text(
        path.read_text(encoding="utf-8").replace("runs-on:", "run-on:"),
        encoding="utf-8",
    )
    assert not is_valid("github-workflows", broken)


def test_workflows_call_what_exists():
    assert {path.stem for path in WORKFLOWS} == {
        "tests",
        "pages",
        "weekly",
        "release",
    }
    jobs = [
        job
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    ]
    commands = " ".join(step.get("run", "") for job in jobs for step in job["steps"])
    assert set(re.findall(r"make (\w+)", commands)) <= set(TARGETS)
    files = re.findall(r"[\w./]+\.py\b|\.ci/run", commands)
    assert files and [name for name in files if not (ROOT / name).exists()] == []


def floating(text: str) -> set[str]:
    """The actions that a workflow does not pin by a commit with its version beside."""
    used = re.findall(r"uses: (\S+?)@(.+)", text)
    pinned = r"[0-9a-f]{40} # v\d+\.\d+\.\d+"
    return {name for name, where in used if not re.fullmatch(pinned, where)}


def test_actions_are_pinned_by_commit():
    texts = [path.read_text(encoding="utf-8") for path in WORKFLOWS]
    assert set.union(*map(floating, texts)) == set()
    assert floating("- uses: actions/checkout@v4") == {"actions/checkout"}


def loose(text: str) -> list[str]:
    """Where a workflow leaves a token with code that needs none: in jobs that may write
    and run more than actions and gh, and in the folder of a checkout.
    """
    workflow = yaml.safe_load(text)
    found = [] if workflow["permissions"] == {"contents": "read"} else ["workflow"]
    for name, job in workflow["jobs"].items():
        writes = "write" in job.get("permissions", {}).values()
        for step in job["steps"]:
            checkout = step.get("uses", "").startswith("actions/checkout@")
            if (
                checkout
                and step.get("with", {}).get("persist-credentials") is not False
            ):
                found.append(f"{name}: checkout")
            if writes and (checkout or not step.get("run", "gh ").startswith("gh ")):
                found.append(f"{name}: writes")
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_runs_our_code_may_write_nowhere(path):
    text = path.read_text(encoding="utf-8")
    assert loose(text) == []
    kept = text.replace("persist-credentials: false", "clean: true")
    assert len(loose(kept)) == kept.count("actions/checkout@") > 0
    assert loose(text.replace("contents: read", "contents: write", 1)) == ["workflow"]
    steps = "    permissions: {contents: write}\n    steps:\n      - run: make book\n"
    assert [f for f in loose(kept.replace("    steps:\n", steps, 1)) if "writes" in f]


# --- what must not stand in any file ---

FOREIGN = {
    "a path of one machine": r"(?<![\w.-])/(?:work|root|home/\w+|Users/\w+|tmp/\w+)/",
    "the host of a package registry": (
        r"(?:files\.python)hosted\.org|(?:pypi)\.org"
        r"|(?:download)\.pytorch\.org|(?:registry)\.npmjs\.org"
    ),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_says(what):
    pattern = re.compile(FOREIGN[what])
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, text in address.text_files()
        for match in pattern.finditer(text)
    ]
    assert found == []


# --- what a user installs (tests/versions.py does it with the lowest versions) ---


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist, and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("built")
    release.distributions(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder into which the wheel was installed."""
    [wheel] = built.glob("*.whl")
    target = tmp_path_factory.mktemp("installed")
    offline = ["-q", "--no-deps", "--no-index", "--target", target]
    code, out, err = run(sys.executable, "-m", "pip", "install", *offline, wheel)
    assert code == 0, out + err
    return target


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.wide
def test_the_wheel_holds_the_library_whole_and_nothing_else(installed):
    for package, here in PACKAGES.items():
        assert files_below(installed / package) == files_below(ROOT / here)
    others = {path.name for path in installed.iterdir()} - PACKAGES.keys()
    assert others == {f"attnlib-{PROJECT['version']}.dist-info"}


@pytest.mark.wide
def test_the_sdist_holds_the_library_and_no_part_of_the_tests(built):
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [entry.name for entry in archive if entry.isfile()]
    inside = [name.partition("/")[2] for name in names]
    below = tuple(f"{place}/" for place in PACKAGES.values())
    library = {place + name for place in below for name in files_below(ROOT / place)}
    assert {name for name in inside if name.startswith(below)} == library
    others = {name for name in inside if "/" in name} - library
    assert all(".egg-info/" in name for name in others), others


@pytest.mark.wide
def test_the_python_of_the_readme_runs_with_what_the_wheel_installs(installed):
    """In a process of its own, as a reader would: every block, one after the other."""
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert len(blocks) >= 2
    where = "import attnlib, sys; print(attnlib.__file__, file=sys.stderr)"
    code, out, err = run(
        sys.executable,
        *("-W", "error", "-c", "\n".join([*blocks, where])),
        cwd=installed,
    )
    assert code == 0, err
    assert Path(err.strip()).is_relative_to(installed)
    assert float(re.match(r"tensor\((\S+?),", out)[1]) < 1e-12


def test_rooms_are_there_when_asked_for():
    import attnlib

    assert attnlib.paths.path_counts([3, 3]) == [0, 0, 9] and "certify" in dir(attnlib)
    with pytest.raises(AttributeError, match="no room 'cellar'"):
        _ = attnlib.cellar


# --- the API page ---


def test_the_api_pages_list_every_module_that_defines_a_public_name():
    shown = [p.read_text(encoding="utf-8") for p in (ROOT / "book").glob("api*.md")]
    listed = set(re.findall(r"automodule:: (\S+)", "".join(shown)))
    defining = set()
    packages = [ROOT / here for here in PACKAGES.values()]
    files = [(p.parent, path) for p in packages for path in p.rglob("*.py")]
    for place, path in files:
        parts = path.relative_to(place).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        public = not any(part.startswith("_") for part in parts if part != "__init__")
        kinds = (ast.FunctionDef, ast.ClassDef)
        if public and any(
            isinstance(n, kinds) and n.name[0] != "_"
            for n in ast.parse(path.read_text(encoding="utf-8")).body
        ):
            defining.add(module)
    assert len(defining) > 50 and defining - listed == set()
