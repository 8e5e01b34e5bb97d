"""A release: its number and day wherever they stand, and the files that go out.

    python book/_tools/release.py bump x.y.z
    python book/_tools/release.py pack

`bump` gives every file the new version and the present day. `pack` puts
wheel, sdist, PDF, a zip of the built site and the notes of the release into
_build/release, and installs the wheel into an environment of its own to try a theorem.
Neither asks a network for anything.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import address
import pages
import pdf
import yaml
from pages import Problem

import notebooks

# Where version and day stand; the pages get theirs from pyproject.toml.
PLACES = {
    "pyproject.toml": ['\nversion = "{version}"'],
    "attnlib/__init__.py": ['__version__ = "{version}"'],
    "_config.yml": ['copyright: "{year}"'],
    "CITATION.cff": ["version: {version}", 'released: "{day}"', "year: {year}"],
    "README.md": ["Version {version}", "attnlib{year},", "{{{year}}}"],
    "book/cite.md": [
        "ersion {version}",
        "version: {version}",
        "/{folder}/",
        'released: "{day}"',
        "year: {year}",
        "attnlib{year}",
        "{{{year}}}",
        "({year})",
    ],
    "paper/paper.md": ["\ndate: {words}"],
}
# Here an old version is history, or the version of something else.
HISTORY = re.compile(r"CHANGELOG\.md|requirements\.txt|tests/|.*/data/|book/released")
UNRELEASED = re.compile(r"^## Unreleased.*$", re.M)
VERSION = re.compile(r"\d+\.\d+\.\d+")
RELATIVE = re.compile(r'(\]\(|src=")(?!https?:|#)')
TRY = """
import attnlib
from attnbook import theorems
print(attnlib.__version__, attnlib.__file__)
assert theorems.paths.lengths([12] * 12).ok
assert theorems.paths.lengths([2, 3, 4]).ok is False
"""


# ---------------------------------------------------------------- number and day


def words(version: str, day: str) -> dict[str, str]:
    """The forms in which files show a version and a day."""
    date = datetime.date.fromisoformat(day)
    return {
        "version": version,
        "folder": folder(version),
        "day": day,
        "year": str(date.year),
        "words": f"{date.day} {date:%B %Y}",
    }


def folder(version: str) -> str:
    """Where the site keeps this version: x.y for x.y.0 and x.y.1."""
    return version.rpartition(".")[0]


def present(root: Path) -> dict[str, str]:
    """Version and day of the last release."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    return words(notebooks.library_version(root), str(cited["date-released"]))


def bump(version: str, root: Path = pages.ROOT, day: str = "") -> None:
    """Give every file a new version and day."""
    old = present(root)
    if not VERSION.fullmatch(version) or numbers(version) <= numbers(old["version"]):
        raise Problem(
            f"VERSION={version}: needs x.y.z above {old['version']}"
            " (without VERSION, make release packs the present one)"
        )
    new = words(version, day or datetime.date.today().isoformat())
    changes = {root / name: renewed(root, name, old, new) for name in PLACES}
    changes[root / "CHANGELOG.md"] = closed(root, new)
    for path, text in changes.items():
        pages.write_atomically(path, text)
    if notebooks.main(["clean"], root):
        raise Problem("the pages were not rewritten (above)")
    if left := leftovers(root, old, new["day"]):
        raise Problem("\n".join(["the old version or day still stands in:", *left]))


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def renewed(root: Path, name: str, old: dict, new: dict) -> str:
    """The text of a file with the new version and day in all its places."""
    text = (root / name).read_text(encoding="utf-8")
    for place in PLACES[name]:
        before = place.format(**old)
        if before not in text:
            raise Problem(f"{name}: {before.strip()!r} is not there")
        text = text.replace(before, place.format(**new))
    return text


def closed(root: Path, new: dict) -> str:
    """The changelog, in which what was unreleased is this release."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not UNRELEASED.search(text):
        raise Problem("CHANGELOG.md: no heading '## Unreleased'")
    return UNRELEASED.sub(f"## {new['version']} ({new['words']})", text, count=1)


def leftovers(root: Path, old: dict, day: str) -> list[str]:
    """Where the old version, or its day if the new one is another, still stands:
    'file:line'.
    """
    stale = [old["version"]] + [old["day"]] * (old["day"] != day)
    found = []
    for path, text in address.text_files(root):
        name = path.relative_to(root).as_posix()
        if HISTORY.match(name):
            continue
        lines = enumerate(text.splitlines(), 1)
        found += [f"{name}:{n}" for n, line in lines if shows(line, stale)]
    return found


def shows(line: str, stale: list[str]) -> bool:
    """Whether a line shows an old version or day, and not since when a claim stands."""
    if line.lstrip().startswith("since = "):
        return False
    return any(re.search(rf"(?<![\d.]){re.escape(s)}(?![\d])", line) for s in stale)


# ---------------------------------------------------------------- what goes out


def pack(root: Path = pages.ROOT) -> list[Path]:
    """Make the files of the release and try them; where they are."""
    version = notebooks.library_version(root)
    site, out = root / "_build" / "html", root / "_build" / "release"
    for needed in (site / "index.html", site / pdf.NAME):
        if not needed.is_file():
            raise Problem(f"{needed} is not there: make book pdf")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "notes.md").write_text(notes(root, version), encoding="utf-8")
    shutil.copy(site / pdf.NAME, out)
    zipped(site, out / f"site-{version}.zip")
    [wheel] = distributions(root, out)
    attempt(wheel)
    return sorted(out.iterdir())


def notes(root: Path, version: str) -> str:
    """What the changelog says of a version."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        heading, _, said = section.partition("\n")
        if heading.split()[0] == version:
            return said.strip() + "\n"
    raise Problem(f"CHANGELOG.md says nothing of {version}: make release VERSION=...")


def zipped(site: Path, out: Path) -> None:
    """The site in a zip that is the same for the same site."""
    files = sorted(path for path in site.rglob("*") if path.is_file())
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(site).as_posix())
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def distributions(root: Path, out: Path) -> list[Path]:
    """Build sdist and, from it, wheel; the wheel. Building leaves files behind, hence
    the copy.
    """
    unwanted = shutil.ignore_patterns(".*", "_build", "build", "*.egg-info")
    build = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(root, copy, ignore=unwanted)
        readme = (copy / "README.md").read_text(encoding="utf-8")
        (copy / "README.md").write_text(for_index(readme, root), encoding="utf-8")
        run(sys.executable, "-c", build, out, cwd=copy)
    [sdist] = out.glob("*.tar.gz")
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    run(sys.executable, "-m", "pip", "wheel", "-q", *offline, "-w", out, sdist)
    return list(out.glob("*.whl"))


def for_index(readme: str, root: Path) -> str:
    """README as the package index shows it, where relative links would lead nowhere."""
    repository = address.repository_url(root)
    version = notebooks.library_version(root)

    def absolute(link: re.Match) -> str:
        kind = "raw" if link[1].startswith("src") else "blob"
        return f"{link[1]}{repository}/{kind}/v{version}/"

    return RELATIVE.sub(absolute, readme)


def attempt(wheel: Path) -> None:
    """Install the wheel alone into a new environment, which borrows from this one only
    what the library needs, and try a theorem and its control there.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "environment"
        run(sys.executable, "-m", "venv", place)
        python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        lent = Path(run(sys.executable, "-c", where).strip())
        own = Path(run(python, "-c", where).strip())
        (own / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")
        version, found = run(python, "-c", TRY, cwd=scratch).split(maxsplit=1)
        if not Path(found.strip()).is_relative_to(own):
            raise Problem(f"{found.strip()} was tried, and not the wheel {version}")


def run(*command, cwd: Path | None = None) -> str:
    """What a command prints. It must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Problem(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(argv: list[str]) -> int:
    try:
        match argv:
            case ["bump", version]:
                bump(version)
                print(f"version {version}; look at the changes, commit them, then tag")
            case ["pack"]:
                for path in pack():
                    print(f"{path.stat().st_size / 1e6:8.2f} MB  {path}")
            case _:
                raise Problem("usage: release.py bump x.y.z | pack")
    except (Problem, ValueError, OSError) as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
