"""The public address of the book. It stands in _config.yml; this tool carries a new one
to every file that shows the present one.

    python book/_tools/address.py set OWNER/REPO
    python book/_tools/address.py check OWNER/REPO

The second fails where _config.yml names another one.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# As GitHub allows them; OWNER.github.io is served without its name in the path.
SLUG = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/(?!.*\.(?:git|github\.io)$)[\w-][\w.-]*"
)
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
    if not SLUG.fullmatch(slug):
        raise ValueError(
            f"{slug!r} is no address: give OWNER/REPO, as in github.com/OWNER/REPO"
        )
    owner, repo = slug.split("/")
    return owner, repo


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


def page_url(page: str, root: Path = ROOT) -> str:
    """The rendered form of a page: notebooks/path_decomposition/paths."""
    return f"{site_url(root)}{page}.html"


def colab_url(notebook: str, root: Path = ROOT) -> str:
    """A notebook, opened in Colab."""
    slug, branch = "/".join(current(root)), config(root)["branch"]
    colab = "https://colab.research.google.com/github"
    return f"{colab}/{slug}/blob/{branch}/{notebook}"


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
            try:  # bytes: line ends stay as they are
                yield path, path.read_bytes().decode("utf-8")
            except (UnicodeDecodeError, FileNotFoundError):
                continue


def set_address(slug: str, root: Path = ROOT) -> list[Path]:
    """Carry a new address into every file that shows the present one; the files that
    changed.
    """
    (owner, repo), (old_owner, old_repo) = parse(slug), current(root)
    end = r"(?![\w-])(?!\.(?!git\b)\w)"  # no longer name, but a full stop may follow
    changed = []
    for path, before in list(text_files(root)):
        after = re.sub(
            rf"(://[^\s\"'<>()]*/){old_owner}/{re.escape(old_repo)}{end}",
            rf"\g<1>{owner}/{repo}",
            before,
        )
        after = re.sub(
            rf"(?<=://){old_owner}\.github\.io/{re.escape(old_repo)}{end}",
            f"{owner}.github.io/{repo}",
            after,
        )
        if after != before:
            path.write_bytes(after.encode("utf-8"))
            changed.append(path)
    return changed


def main(arguments: list[str]) -> int:
    """The command line."""
    try:
        match arguments:
            case ["set", slug]:
                for path in set_address(slug):
                    print(path.relative_to(ROOT))
            case ["check", slug]:
                if parse(slug) != current():
                    now = "/".join(current())
                    raise ValueError(
                        f"_config.yml says {now}; run: address.py set {slug}"
                    )
            case _:
                raise ValueError("usage: address.py set OWNER/REPO | check OWNER/REPO")
    except ValueError as error:
        print(f"address: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
