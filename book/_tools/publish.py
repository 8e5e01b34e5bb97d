"""Lay out what GitHub Pages serves: every version of the book beside the newest.

    python book/_tools/publish.py OUT [ZIP ...]

_build/html goes to OUT/latest; each zip of a release, site-x.y.z.zip, goes to OUT/x.y,
the last one of a number wins. Addresses without a version stay good: a page at the
root leads to the same page in latest/, its anchor included. The pages of a release say
which version they are and lead to latest/. OUT must not exist yet.
"""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pages
from pages import Problem
from release import folder, numbers

ASSET = re.compile(r"site-(\d+\.\d+\.\d+)\.zip")
LEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Moved to latest</title>
<link rel="canonical" href="{to}">
<meta http-equiv="refresh" content="0; url={to}">
<script>location.replace("{to}" + location.search + location.hash)</script>
</head><body><a href="{to}">This page, in the newest version</a></body></html>
"""
NOTE = """<p style="margin:0;padding:.5rem 1rem;background:#fff3cd;color:#332701">
This is version {version} of the book, kept as it was.
<a style="color:#5c3d00" href="{to}">The newest version</a></p>"""
BODY = re.compile(r"<body\b[^>]*>")


def publish(site: Path, out: Path, zips: list[Path]) -> None:
    """Write OUT from the built site and the zips of releases."""
    if not (site / "index.html").is_file():
        raise Problem(f"{site}: no site here; make book")
    if out.exists():
        raise Problem(f"{out} is there already")
    shutil.copytree(site, out / "latest")
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        up = "../" * (len(name.parts) - 1)
        pages.write_atomically(out / name, LEAD.format(to=f"{up}latest/{name}"))
    for number, path in sorted((number_of(path), path) for path in zips):
        version = ".".join(map(str, number))
        kept = out / folder(version)
        shutil.rmtree(kept, ignore_errors=True)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(kept)
        mark(kept, version)


def number_of(path: Path) -> list[int]:
    found = ASSET.fullmatch(path.name)
    if not found:
        raise Problem(f"{path}: a zip of a release is called site-x.y.z.zip")
    return numbers(found[1])


def mark(kept: Path, version: str) -> None:
    """Let each page of a release say that it is one."""
    for path in sorted(kept.rglob("*.html")):
        name = path.relative_to(kept)
        same = kept.parent / "latest" / name
        target = name if same.is_file() else "index.html"
        up = "../" * len(name.parts)
        note = NOTE.format(version=version, to=f"{up}latest/{target}")
        text = path.read_text(encoding="utf-8")
        if body := BODY.search(text):
            text = text[: body.end()] + note + text[body.end() :]
            pages.write_atomically(path, text)


def main(argv: list[str]) -> int:
    try:
        if not argv:
            raise Problem("usage: publish.py OUT [ZIP ...]")
        out, *zips = map(Path, argv)
        publish(pages.ROOT / "_build" / "html", out, zips)
    except (Problem, OSError, zipfile.BadZipFile) as problem:
        print(f"publish: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
