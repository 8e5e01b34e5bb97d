"""What a build runs, reads and writes again, that two at a time build the same book,
and what it does when it is killed or meets broken files.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import build
import minibook
import page_cache
import pages
import pytest
from minibook import code, markdown

sys.path.insert(0, str(pages.ROOT / "book" / "_experiments"))
import book_build  # noqa: E402  (it stands in the folder just named)

CELL = minibook.CELLS[1]


def test_importing_attnlib_imports_nothing_else():
    """So it cannot cost more than reading one small file; `from attnlib import
    attention` costs what it needs.
    """
    probe = (
        "import sys; before = set(sys.modules); import {}; "
        "new = set(sys.modules) - before; "
        "names = {{name.split('.')[0] for name in new}}; "
        "foreign = names - set(sys.stdlib_module_names); "
        "print(sorted(foreign), 'attnlib.attention' in new)"
    )
    assert (
        minibook.python(pages.ROOT, "-c", probe.format("attnlib")).stdout
        == "['attnlib'] False\n"
    )
    found = minibook.python(pages.ROOT, "-c", probe.format("attnlib.attention")).stdout
    assert (
        "'torch'" in found and "True" in found
    )  # the control: the probe sees what is imported


# ---------------------------------------------------------------- what is done again


WORDS = """# Page {n}

To [Theorem 1.1](page.ipynb#theorem-1.1).

```{{index}} Word {n}
```
"""
PICTURE = """import base64
from IPython.display import HTML

circle = '<svg width="9pt" height="9pt"><circle r="{n}"/></svg>'
data = base64.b64encode(circle.encode()).decode()
HTML(f'<img alt="A circle" src="data:image/svg+xml;base64,{{data}}">')
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A book of eight pages, so many that Sphinx reads several at a time; built."""
    root = minibook.make(tmp_path_factory.mktemp("many"))
    names = [f"notebooks/one/page{n}" for n in range(7)]
    for n, name in enumerate(names):
        minibook.write_page(
            root,
            markdown("title", WORDS.format(n=n)),
            code("picture", PICTURE.format(n=n)),
            code("print", f"print({n})"),
            name=f"{name}.ipynb",
        )
    minibook.write_toc(root, "notebooks/one/page", *names)
    done = minibook.build(root)
    assert done.returncode == 0 and "8 to run" in done.stdout, done.stdout + done.stderr
    return root


def done_again(root):
    """The pages that the last build read, and those that it wrote."""
    log = (root / "_build/build.log").read_text(encoding="utf-8")
    line = r"\.\.\. \[[ \d]+%\] (\S+)"
    return tuple(
        set(re.findall(work + line, log))
        for work in ("reading sources", "writing output")
    )


@pytest.mark.wide
def test_after_one_page_changed_only_that_page_is_done_again(many):
    book_build.change(many / "notebooks/one/page3.ipynb", "markdown", "One line more.")
    done = minibook.build(many)
    assert done.returncode == 0 and ", 0 to run" in done.stdout
    assert done_again(many) == ({"notebooks/one/page3"}, {"notebooks/one/page3"})
    book_build.change(many / "notebooks/one/page4.ipynb", "code", "print('and more')")
    done = minibook.build(many)
    assert done.returncode == 0 and ", 1 to run" in done.stdout
    assert "and more" in minibook.html(many, "notebooks/one/page4.html")
    assert done_again(many) == ({"notebooks/one/page4"}, {"notebooks/one/page4"})
    assert minibook.build(many).returncode == 0
    assert done_again(many) == (set(), set())


@pytest.mark.wide
def test_a_book_that_grew_is_the_book_built_from_nothing(many):
    """The site that is there was built two at a time, then some pages changed: another
    picture and title, a page less, another entry of the index. From nothing and one at
    a time it is the same: no time of day, no random order, nothing left over is in any
    file. (If a part of Sphinx could not read pages at once, it would warn, and the
    build fail.)
    """
    cells = [
        markdown("title", WORDS.format(n="of two")),
        code("c", PICTURE.format(n=9)),
    ]
    minibook.write_page(many, *cells, name="notebooks/one/page2.ipynb")
    done = minibook.build(many)
    assert done.returncode == 0 and ", 1 to run" in done.stdout
    assert "Page of two</a>" in minibook.html(many)  # all sidebars say so
    (many / "notebooks/one/page5.ipynb").unlink()
    toc = (many / "_toc.yml").read_text(encoding="utf-8")
    (many / "_toc.yml").write_text(re.sub(r".*page5\n", "", toc), encoding="utf-8")
    assert minibook.build(many).returncode == 0
    book_build.change(
        many / "notebooks/one/page1.ipynb", "markdown", "```{index} Another word\n```"
    )
    assert minibook.build(many).returncode == 0
    assert done_again(many)[1] == {"notebooks/one/page1"}
    two = minibook.site(many)
    shutil.rmtree(many / "_build")
    done = minibook.build(many, "--at-once", "1")
    assert done.returncode == 0, done.stderr
    one = minibook.site(many)
    assert len(two) > 100 and one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert b"another word" in two["searchindex.js"]


# ------------------------------------------------------------- what may befall a build


def begun(root: Path) -> subprocess.Popen:
    """A build in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "book/_tools/build.py", "--no-verdicts"],
        cwd=root,
        env=minibook.environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.wide
def test_a_site_that_was_half_written_is_written_anew(many):
    before = minibook.site(many)
    shutil.rmtree(many / "_build/html")
    killed = begun(many)
    page = many / "_build/html/notebooks/one/page3.html"
    while not page.exists() and killed.poll() is None:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    os.truncate(page, 100)  # as if it had been killed right here
    assert len(minibook.site(many)) < len(before)
    assert minibook.build(many).returncode == 0
    assert minibook.site(many) == before


@pytest.mark.wide
def test_of_two_builds_at_once_one_waits(many):
    before = minibook.site(many)
    shutil.rmtree(many / "_build")
    builds = [begun(many), begun(many)]
    said = [build.communicate()[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], said
    assert sum("this one waits" in text for text in said) == 1
    assert minibook.site(many) == before


@pytest.mark.wide
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line_and_a_complaint_is_made_again(tmp_path):
    root = minibook.make(tmp_path)
    (root / "_build").mkdir()
    (root / "_build/build.log").symlink_to("/dev/full")
    done = minibook.build(root)
    assert (done.returncode, done.stderr) == (1, f"build: {build.FULL}\n")
    (root / "_build/build.log").unlink()
    dead = markdown("title", "# A page\n\n[gone](#nowhere)")
    minibook.write_page(root, dead, CELL)
    for _ in range(2):  # Sphinx by itself warns of what it reads, and then never again
        done = minibook.build(root)
        assert done.returncode == 1 and "target not found: 'nowhere'" in done.stderr
        assert ", 0 to run" in done.stdout


def test_only_a_full_disk_is_called_one():
    try:
        raise RuntimeError("the cache") from OSError(28, os.strerror(28), "a file")
    except RuntimeError as error:
        assert build.said(error) == build.FULL
    assert build.said(pages.Problem("a page failed")) == "a page failed"
    with pytest.raises(KeyError):
        build.said(KeyError("a fault of the tool"))


SPOILT = {"empty": 0, "cut": 0.5, "other things": "{}", "gone": None}


@pytest.mark.parametrize("harm", SPOILT.values(), ids=SPOILT)
def test_what_is_spoilt_in_the_cache_is_not_there_and_is_kept_anew(tmp_path, harm):
    path = minibook.write_page(tmp_path, CELL)
    shelf = page_cache.Shelf(tmp_path)
    shelf.keep(pages.read(path), path)
    assert shelf.executed(path) == pages.read(path)
    spoilt = shelf.place(path).with_suffix(".ipynb")
    if harm is None:
        spoilt.unlink()
    elif isinstance(harm, str):
        spoilt.write_text(harm)
    else:
        os.truncate(spoilt, int(spoilt.stat().st_size * harm))
    assert shelf.executed(path) is None
    shelf.keep(pages.read(path), path)
    assert shelf.executed(path) == pages.read(path)


# ------------------------------------------------------------- a page that does not run


STORED = code("before", "print('as ' + 'it ran')", "nbval-check-output") | {
    "outputs": [{"name": "stdout", "output_type": "stream", "text": "as stored\n"}]
}
FAILING = {
    "raises": ("1 / 0", "cell 'bad' failed: ZeroDivisionError: division by zero"),
    "killed": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "cell 'bad' failed: the kernel died",
    ),
    "ends": ("import os\nos._exit(0)", "cell 'bad' failed: the kernel died"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_page_that_fails_does_not_take_the_book_away(tmp_path, case):
    root = minibook.make(tmp_path)
    text, why = FAILING[case]
    name = "notebooks/one/bad"
    title = markdown("title", "# Bad\n\nWords.")
    minibook.write_page(root, title, STORED, code("bad", text), name=f"{name}.ipynb")
    minibook.write_toc(root, "notebooks/one/page", name)
    for _ in range(2):  # what failed is tried again
        done = minibook.build(root)
        assert done.returncode == 1 and "Traceback" not in done.stdout
        assert f"bad.ipynb: {why}" in done.stderr
        assert f"notebooks.py run {name}.ipynb" in done.stderr
        assert f"The book: {root / '_build/html/index.html'}" in done.stdout
        page = html.unescape(minibook.html(root, f"{name}.html"))
        assert "did not run here" in page and why in page
        assert "as stored" in page and "as it ran" not in page
        assert "the value is 41" in minibook.html(root)
        assert "did not run here" not in minibook.html(root)
    assert "1 from the cache, 1 to run" in done.stdout
    minibook.write_page(root, title, STORED, code("bad", "1"), name=f"{name}.ipynb")
    assert minibook.build(root).returncode == 0
    page = minibook.html(root, f"{name}.html")
    assert "did not run here" not in page and "as it ran" in page
