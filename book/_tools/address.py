"""The public address of the book: it stands once, in _config.yml, and this tool carries
it everywhere else.

    python book/_tools/address.py set OWNER/REPO
    python book/_tools/address.py check [OWNER/REPO]

The first rewrites every file that shows the address, all or none. The second lists what
disagrees with _config.yml (and _config.yml with OWNER/REPO).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COLAB = "https://colab.research.google.com/github"
# As GitHub allows them; a repository called OWNER.github.io is served without its name
# in the path, so it is refused.
SLUG = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?)/([A-Za-z0-9._-]{1,100})"
)
# The end of a repository's name in running text: a full stop ends a sentence, unless a
# name goes on after it.
END = r"(?![\w-])(?!\.(?!git\b)\w)"
SKIPPED = {"_build", "build", "__pycache__", "mathjax", "node_modules"}
KEPT = {".ci", ".github"}  # of the folders whose names begin with a dot


def config(root: Path = ROOT) -> dict:
    """The table `repository` of _config.yml: url, branch, path_to_book."""
    try:
        table = settings((root / "_config.yml").read_text(encoding="utf-8"))
        address, _ = table["url"], table["branch"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        wanted = "_config.yml: needs repository.url and repository.branch"
        raise ValueError(f"{wanted} ({error!r})".replace("\n", " ")) from None
    if not str(address).startswith("https://github.com/"):
        raise ValueError(
            f"_config.yml: repository.url is {address!r}; "
            "it must be 'https://' and github.com/OWNER/REPO"
        )
    parse(address.removeprefix("https://github.com/"))
    return table


@functools.lru_cache(maxsize=4)  # each page asks
def settings(text: str) -> dict:
    """The table `repository` of a _config.yml, from its text."""
    return yaml.safe_load(text)["repository"]


def parse(slug: str) -> tuple[str, str]:
    """OWNER and REPO of 'OWNER/REPO'."""
    match = SLUG.fullmatch(slug)
    if not match or set(match[2]) == {"."} or match[2].endswith((".git", ".github.io")):
        raise ValueError(
            f"{slug!r} is no address: give OWNER/REPO, as in github.com/OWNER/REPO"
        )
    return match[1], match[2]


def current(root: Path = ROOT) -> tuple[str, str]:
    """OWNER and REPO as _config.yml has them."""
    return parse(config(root)["url"].removeprefix("https://github.com/"))


def repository_url(root: Path = ROOT) -> str:
    """Where the sources are."""
    return config(root)["url"]


def site_url(root: Path = ROOT) -> str:
    """Where the rendered book is, with a slash at its end."""
    owner, repo = current(root)
    return f"https://{owner}.github.io/{repo}/"


def docname(page: str) -> str:
    """The name that the build gives to a page: 'path_decomposition/paths' is short for
    'notebooks/path_decomposition/paths'.
    """
    name = re.sub(r"\.(ipynb|md|html)$", "", str(page).replace(os.sep, "/"))
    return name if name.startswith(("book/", "notebooks/")) else f"notebooks/{name}"


def page_url(page: str, root: Path = ROOT) -> str:
    """The rendered form of a page."""
    return f"{site_url(root)}{docname(page)}.html"


def colab_url(page: str, root: Path = ROOT) -> str:
    """A notebook, opened in Colab."""
    owner, repo = current(root)
    return f"{COLAB}/{owner}/{repo}/blob/{config(root)['branch']}/{docname(page)}.ipynb"


def text_files(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Every text file of the project with what is in it; what is built, vendored or
    hidden is left out.
    """
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f
            for f in folders
            if f in KEPT
            or not (f in SKIPPED or f.startswith(".") or f.endswith(".egg-info"))
        )
        for path in (Path(folder, name) for name in sorted(names)):
            if path.is_symlink():
                continue
            try:
                yield (
                    path,
                    path.read_bytes().decode("utf-8"),
                )  # bytes: line ends stay as they are
            except UnicodeDecodeError:
                continue


def rewritten(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """The text with every address of the old repository, its site and its Colab links
    turned into the new one's.
    """
    of_owner, of_repo = (re.escape(part) for part in old)
    text = re.sub(
        rf"(://[^\s\"'<>()]*/){of_owner}/{of_repo}{END}",
        rf"\g<1>{new[0]}/{new[1]}",
        text,
    )
    return re.sub(
        rf"(://){of_owner}\.github\.io/{of_repo}{END}",
        rf"\g<1>{new[0]}.github.io/{new[1]}",
        text,
    )


def set_address(slug: str, root: Path = ROOT) -> list[Path]:
    """Carry a new address into every file that shows the present one; the files that
    changed.
    """
    new, old = parse(slug), current(root)
    texts = ((path, text, rewritten(text, old, new)) for path, text in text_files(root))
    changes = {path: after for path, before, after in texts if after != before}
    write_all(changes)
    return list(changes)


def write_all(changes: dict[Path, str]) -> None:
    """Write all files or none: first beside each one, and only when all are on the
    disk, into their places.
    """
    olds = {path: path.read_bytes() for path in changes}
    drafts = {path: path.with_name(f".{path.name}.new") for path in changes}
    done = []
    try:
        for path, draft in drafts.items():
            draft.write_bytes(changes[path].encode("utf-8"))
            shutil.copymode(path, draft)
        for path, draft in drafts.items():
            os.replace(draft, path)
            done.append(path)
    except OSError as error:
        for path in done:
            path.write_bytes(olds[path])
        raise ValueError(f"nothing was changed: {error}") from None
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def disagreements(root: Path = ROOT) -> list[str]:
    """What does not carry the address of _config.yml, one line each: 'file: what is
    wrong'.
    """
    address, found = current(root), []
    for path, text in text_files(root):
        name = path.relative_to(root).as_posix()
        found += [f"{name}:{line}: {what}" for line, what in strangers(text, address)]
        found += [
            f"{name}: {need} is missing"
            for need in needs(name, root)
            if need not in text
        ]
    return found


def strangers(text: str, address: tuple[str, str]) -> Iterator[tuple[int, str]]:
    """Line and words for whatever can only be meant for this book, and leads to another
    place.
    """
    owner, repo = address
    part, name = r"[A-Za-z0-9-]+", r"[\w-]+(?:\.(?!git\b)[\w-]+)*"
    ours = {f"{owner}/{repo}", f"{owner}.github.io/{repo}"}
    # what installs and opens this book
    always = rf"(?:{re.escape(COLAB)}|git\+https://github\.com)/({part}/{name})"
    forks = rf"://github\.com/({part}/{re.escape(repo)}){END}|://({part}\.github\.io/{re.escape(repo)}){END}"
    # the address before it was ever set
    blank = r"://github\.com/(OWNER/REPO)\b|://(OWNER\.github\.io/REPO)\b"
    for match in re.finditer(f"{always}|{forks}|{blank}", text):
        named = next(group for group in match.groups() if group)
        if named not in ours:
            yield (
                text.count("\n", 0, match.start()) + 1,
                f"{named} is not {owner}/{repo}",
            )


def needs(name: str, root: Path = ROOT) -> list[str]:
    """The addresses that a file must show."""
    if name.startswith("notebooks/") and name.endswith(".ipynb"):
        branch = config(root)["branch"]
        return [
            f"git+{repository_url(root)}@{branch}",
            colab_url(name, root),
            page_url(name, root),
        ]
    both = [repository_url(root), site_url(root)]
    return both if name in ("README.md", "CITATION.cff", "pyproject.toml") else []


def main(arguments: list[str], root: Path = ROOT) -> int:
    """The command line."""
    try:
        match arguments:
            case ["set", slug]:
                changed = set_address(slug, root)
                print(
                    f"{slug}: rewrote {len(changed)} files",
                    *(path.relative_to(root) for path in changed),
                    sep="\n  ",
                )
            case ["check", *expected] if len(expected) < 2:
                if expected and parse(expected[0]) != current(root):
                    raise ValueError(
                        f"_config.yml says {'/'.join(current(root))}; "
                        f"run: address.py set {expected[0]}"
                    )
            case _:
                raise ValueError(
                    "usage: address.py set OWNER/REPO | check [OWNER/REPO]"
                )
        wrong = disagreements(root)
    except ValueError as error:
        print(f"address: {error}", file=sys.stderr)
        return 1
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
