"""The executed pages, kept for the site.

jupyter-cache keeps them. Here stands what it leaves open: processes that write at the
same time, and files that a crash or a full disk has spoilt. What cannot be read is not
there, and its page is run again.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pages
from filelock import FileLock
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract

KEPT_CACHES = 3


@contextlib.contextmanager
def opened(root: Path) -> Iterator[JupyterCacheAbstract]:
    """The cache of the code as it is now, for this process alone."""
    folder = pages.cache_path(root)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / "lock"):
        if not is_sound(folder / "global.db"):
            print("pages: the cache is broken; it is made anew", flush=True)
            shutil.rmtree(folder)
        cache = get_cache(folder)
        try:
            yield cache
        finally:  # Python 3.13 warns of a database that nobody has closed
            cache.db.dispose()


def is_sound(database: Path) -> bool:
    """Whether the list of what is in the cache can be read; none is a sound one."""
    if not database.exists():
        return True
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
            connection.execute("SELECT * FROM nbcache")
            found = connection.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.DatabaseError:
        return False
    return found == ("ok",)


def holds(cache: JupyterCacheAbstract, notebook: dict) -> bool:
    """Whether a page is in the cache, whole."""
    try:
        record = cache.match_cache_notebook(notebook)
        kept = cache.get_cache_bundle(record.pk).nb
        return cache.create_hashed_notebook(kept)[1] == record.hashkey
    except Exception:  # whatever is wrong with it, the page runs again
        return False


def keep(executed: dict, path: Path, root: Path) -> None:
    """Put an executed page into the cache, unless it is there: it may just be read."""
    with opened(root) as cache:
        if holds(cache, executed):
            return
        # what is left of a broken entry would be in the way
        key = cache.create_hashed_notebook(executed)[1]
        shutil.rmtree(cache.path / "executed" / key, ignore_errors=True)
        cache.cache_notebook_bundle(
            CacheBundleIn(executed, str(path)), check_validity=False, overwrite=True
        )


def prune(root: Path) -> None:
    """Keep the newest caches, so that going back and forth between two versions is
    quick.
    """
    used = pages.cache_path(root)
    others = [p for p in used.parent.glob("*") if p.is_dir() and p != used]
    for old in sorted(others, key=lambda p: p.stat().st_mtime, reverse=True)[
        KEPT_CACHES - 1 :
    ]:
        shutil.rmtree(old, ignore_errors=True)
