"""A release: its number and its files; the site with all versions; the paper."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import threading
import zipfile
from pathlib import Path

import address
import claims
import pages
import pdf
import publish
import pytest
import release

ROOT = pages.ROOT


def text_of(name: str, root: Path = ROOT) -> str:
    return (root / name).read_text(encoding="utf-8")


# --- number and day ---


@pytest.fixture
def copy(tmp_path) -> Path:
    """The text files of the project."""
    for path, text in address.text_files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    with_news(tmp_path)
    return tmp_path


def with_news(root: Path) -> None:
    """Let the changelog begin with a change, be its section there, empty, or not."""
    text = text_of("CHANGELOG.md", root).replace("## Unreleased\n\n", "", 1)
    news = text.replace("## ", "## Unreleased\n\nThings changed.\n\n## ", 1)
    (root / "CHANGELOG.md").write_text(news, encoding="utf-8")


def test_the_present_version_and_day_stand_in_all_places():
    now = release.present(ROOT)
    for name in release.PLACES:
        assert release.renewed(ROOT, name, now, now) == text_of(name)


def test_a_bump_leaves_no_old_version(copy):
    old = release.present(copy)
    release.bump("9.8.7", copy, "2031-02-03")
    assert release.leftovers(copy, old, "2031-02-03") == []
    new = release.present(copy)
    assert (new["version"], new["words"]) == ("9.8.7", "3 February 2031")
    [cited, preferred] = re.findall(
        r"^ *version: (\S+)", text_of("CITATION.cff", copy), re.M
    )
    assert cited == preferred == "9.8.7"
    page = text_of("notebooks/path_decomposition/paths.ipynb", copy)
    assert "version 9.8.7" in page and "/9.8/notebooks/path_decomposition/" in page
    assert "attnlib2031paths" in page
    assert "## 9.8.7 (3 February 2031)" in text_of("CHANGELOG.md", copy)
    assert "attnlib2026" not in text_of("book/cite.md", copy)
    notes = release.notes(copy, "9.8.7")
    assert notes.strip() and "## " not in notes


def test_two_releases_may_have_one_day(copy):
    release.bump("9.8.7", copy, "2031-02-03")
    with_news(copy)
    release.bump("9.8.8", copy, "2031-02-03")
    assert release.notes(copy, "9.8.8") == "Things changed.\n"


def test_a_place_that_nobody_knows_is_found(copy):
    old = release.present(copy)
    with (copy / "book" / "intro.md").open("a", encoding="utf-8") as file:
        file.write(f"\nThis is version {old['version']}.\n")
    with pytest.raises(pages.Problem, match=r"still stands in:\nbook/intro.md:\d+"):
        release.bump("9.8.7", copy)


def test_a_place_that_is_gone_changes_nothing(copy):
    gone = text_of("README.md", copy).replace("Version ", "Number ")
    (copy / "README.md").write_text(gone, encoding="utf-8")
    before = text_of("pyproject.toml", copy)
    with pytest.raises(pages.Problem, match=r"README.md: 'Version .*' is not there"):
        release.bump("9.8.7", copy)
    assert text_of("pyproject.toml", copy) == before


@pytest.mark.parametrize("version", ["0.0.1", "1.0", "v9.0.0", ""])
def test_a_version_that_is_none_or_goes_back_is_refused(version):
    with pytest.raises(pages.Problem, match="needs x.y.z above"):
        release.bump(version)


# --- what goes out ---


@pytest.fixture
def built(copy) -> Path:
    """The project with a site of two pages and a PDF, released as 9.8.7."""
    for licence in ("LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / licence, copy)
    for package in ("attnlib", "book/attnbook"):
        shutil.copytree(ROOT / package, copy / package, dirs_exist_ok=True)
    release.bump("9.8.7", copy)
    site = copy / "_build" / "html"
    two_pages(site)
    (site / pdf.NAME).write_bytes(b"%PDF-1.7")
    return copy


def two_pages(site: Path) -> None:
    (site / "notebooks").mkdir(parents=True)
    (site / "index.html").write_text("<html><body>Front</body></html>")
    (site / "notebooks/a.html").write_text('<html><body class="x">A</body></html>')


@pytest.mark.wide
def test_what_goes_out_is_whole_and_was_tried(built):
    names = [path.name for path in release.pack(built)]
    assert names == [
        "attnlib-9.8.7-py3-none-any.whl",
        "attnlib-9.8.7.tar.gz",
        pdf.NAME,
        "notes.md",
        "site-9.8.7.zip",
    ]
    with zipfile.ZipFile(built / "_build/release/site-9.8.7.zip") as archive:
        assert sorted(archive.namelist())[1:] == ["index.html", "notebooks/a.html"]
    with zipfile.ZipFile(built / "_build/release" / names[0]) as wheel:
        shown = wheel.read("attnlib-9.8.7.dist-info/METADATA").decode()
    at = address.repository_url(built)
    assert f'src="{at}/raw/v9.8.7/book/_static/audit.png"' in shown
    assert f"]({at}/blob/v9.8.7/notebooks/path_decomposition/paths.ipynb)" in shown
    assert release.RELATIVE.search(text_of("README.md"))
    assert not release.RELATIVE.search(shown)


@pytest.mark.wide
def test_a_wheel_that_does_not_work_does_not_go_out(built):
    (built / "attnlib" / "paths.py").write_text("raise ImportError('broken')\n")
    with pytest.raises(pages.Problem, match="ImportError: broken"):
        release.pack(built)


def test_no_pdf_no_release(copy):
    two_pages(copy / "_build" / "html")
    with pytest.raises(pages.Problem, match="make book pdf"):
        release.pack(copy)


# --- the site with every version ---


@pytest.fixture
def public(tmp_path) -> Path:
    """A site with two releases; the older one has a page that is gone."""
    site, zips = tmp_path / "site", []
    two_pages(site)
    for version in ("0.2.1", "0.2.0", "0.10.0"):
        zips.append(tmp_path / f"site-{version}.zip")
        with zipfile.ZipFile(zips[-1], "w") as archive:
            archive.writestr("index.html", f"<body>Front of {version}</body>")
            archive.writestr("notebooks/gone.html", "<body>Gone</body>")
    publish.publish(site, tmp_path / "public", zips)
    return tmp_path / "public"


def test_each_release_keeps_its_folder(public):
    assert {path.name for path in public.iterdir() if path.is_dir()} == {
        *("0.2", "0.10", "latest", "notebooks")
    }
    assert "Front of 0.2.1" in text_of("0.2/index.html", public)
    assert "version 0.2.1" in text_of("0.2/index.html", public)
    assert 'href="../latest/index.html"' in text_of("0.2/index.html", public)
    gone = text_of("0.2/notebooks/gone.html", public)
    assert 'href="../../latest/index.html"' in gone
    assert "kept as it was" not in text_of("latest/index.html", public)


def test_an_address_without_a_version_leads_to_the_newest(public):
    for name in ("index.html", "notebooks/a.html"):
        [to] = re.findall(r'canonical" href="(.+?)"', text_of(name, public))
        led = (public / name).parent / to
        assert led.resolve() == public / "latest" / name and led.is_file()


@pytest.mark.wide
def test_a_browser_keeps_the_anchor(browser, public):
    handler = functools.partial(pdf.Quiet, directory=str(public))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_port}/notebooks/a.html#theorem-1.2")
        page.wait_for_url("**/latest/notebooks/a.html#theorem-1.2")
        assert page.inner_text("body") == "A"
    finally:
        page.close()
        server.shutdown()
        server.server_close()


def test_a_zip_of_another_name_is_refused(tmp_path):
    two_pages(tmp_path / "site")
    with pytest.raises(pages.Problem, match="is called site-x.y.z.zip"):
        publish.publish(tmp_path / "site", tmp_path / "o", [Path("book.zip")])


# --- the paper ---


def entries(bibliography: str) -> dict[str, str]:
    """The entries of a BibTeX file by their keys."""
    found = re.finditer(r"^@\w+\{(\w+),\n.*?^\}", bibliography, re.S | re.M)
    return {entry[1]: entry[0] for entry in found}


def cited(text: str) -> set[str]:
    return set(re.findall(r"(?<!\w)@(\w+)", text))


def test_the_paper_cites_works_of_the_book():
    mine = entries(text_of("paper/paper.bib"))
    assert cited(text_of("paper/paper.md")) == set(mine)
    assert mine.items() <= entries(text_of("book/references.bib")).items()
    assert cited("as in [@dong2021; @nobody1999]") - set(mine) == {"nobody1999"}


def wrong_numbers(text: str) -> list[str]:
    """Numbers of the paper that the book does not bear out; each is a round lower
    bound, and may lag behind by no more than its last round step.
    """
    known = claims.load()
    true = {
        "claims are registered": (len(known), 100),
        "claims are machine-checked": (sum(claim.whole for claim in known), 100),
        "pages stand": (len(pages.notebooks()), 10),
    }
    wrong = []
    for what, (number, step) in true.items():
        [said] = re.findall(rf"More than (\d+)\s+{what}", text)
        if not 0 < number - int(said) <= step:
            wrong.append(f"{what}: {number}")
    return wrong


def test_the_numbers_of_the_paper_are_those_of_the_book():
    text = text_of("paper/paper.md")
    assert wrong_numbers(text) == []
    assert len(wrong_numbers(text.replace("More than ", "More than 9"))) == 3
