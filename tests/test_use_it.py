"""The page *Use it in your code*: every block runs, and prints what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnlib.audit.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "book" / "use_it.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
END = "--- the end of a block"


def run(blocks: list[str]) -> list[str]:
    """What each block prints, one after the other in one new process."""
    source = "\n".join(f"{block}\nprint({END!r})" for block in blocks)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(f"{END}\n")[:-1]


def test_every_block_prints_what_the_page_says():
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == PAGE.count("```python") >= 6
    printed = run([code for code, _ in blocks])
    assert printed == [said for _, said in blocks]


def test_the_help_of_the_report_stands_on_the_page(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out.split()
    [block] = [
        text
        for text in re.findall(r"```text\n(.*?)```", PAGE, re.S)
        if "usage:" in text
    ]
    shown = block.split()
    assert shown == said, set(shown) ^ set(said)


def test_another_output_is_noticed():
    [(code, said)] = BLOCK.findall("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    assert run([code]) == ["1\n"] != [said]
